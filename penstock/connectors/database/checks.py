"""What can be wrong with a table, found on the driver before the job starts. One sentence each."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pyarrow as pa

from penstock.connectors.database.dialect import ColumnInfo, Dialect, TableInfo, Target
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.type_tree import RowTypeInfo, TypeInformation

_INTEGER_BITS = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 24,
    "int": 32,
    "integer": 32,
    "bigint": 64,
}
_NUMBERS = frozenset(
    {*_INTEGER_BITS, "decimal", "numeric", "float", "double", "real", "double precision", "bit"}
)
_TIMES = frozenset({"date", "time", "datetime", "timestamp", "year", "interval"})


def check_table(dialect: Dialect, connection: Any, target: Target) -> TableInfo:
    """Whether the table can take these columns, by these keys."""
    where = f"table {target.table!r} of {dialect.address}"
    table = dialect.describe(connection, target.table)
    if table is None:
        raise ConnectorError(
            f"there is no {where} that this user may see: create it, or grant rights to it",
            code=Code.DATABASE_TABLE,
        )
    known = ", ".join(table.columns)
    for name in target.columns:
        if name not in table.columns:
            raise ConnectorError(
                f"{where} has no column {name!r}; its columns are: {known}", code=Code.DATABASE_TABLE
            )
        if table.columns[name].generated:
            raise ConnectorError(
                f"column {name!r} of {where} is computed by the database: leave it out",
                code=Code.DATABASE_TABLE,
            )
    missing = [
        name for name, column in table.columns.items() if column.required and name not in target.columns
    ]
    if missing:
        raise ConnectorError(
            f"{where} wants a value for {', '.join(missing)} in every row, but the sink writes only "
            f"{', '.join(target.columns)}: write these too, or give them defaults",
            code=Code.DATABASE_TABLE,
        )
    if target.keys and not table.has_unique(target.keys):
        raise ConnectorError(
            f"{where} has no primary key or unique index on exactly {', '.join(target.keys)}, so rows "
            "cannot be found by these key columns: "
            f"ALTER TABLE {target.table} ADD UNIQUE ({', '.join(target.keys)})",
            code=Code.DATABASE_TABLE,
        )
    unsure = [name for name in target.keys if table.columns[name].nullable]
    if unsure:
        raise ConnectorError(
            f"key column {', '.join(unsure)} of {where} may be NULL, and a row with NULL in its key is never "
            "found again, so a repeated one is a second row: make it NOT NULL",
            code=Code.DATABASE_TABLE,
        )
    return table


def check_types(table: TableInfo, target: Target, type_info: TypeInformation | None, where: str) -> None:
    """Whether each column can hold what the stream declares for it, where that is known."""
    if not isinstance(type_info, RowTypeInfo):
        return
    types = dict(zip(type_info.field_names, type_info.field_types, strict=True))
    if set(target.columns) - set(types):
        if len(types) != len(target.columns):
            raise ConfigError(
                f"the sink writes {', '.join(target.columns)}, but the stream's fields are {', '.join(types)}"
            )
        types = dict(zip(target.columns, type_info.field_types, strict=True))
    for name in target.columns:
        arrow = types[name].arrow_type()
        if arrow is not None and not _fits(arrow, table.columns[name]):
            raise ConnectorError(
                f"column {name!r} of {where} is {table.columns[name].declared}, which cannot hold the "
                f"stream's {types[name]!r}: change the column's type, or map the field before the sink",
                code=Code.DATABASE_TABLE,
            )


def _fits(arrow: pa.DataType, column: ColumnInfo) -> bool:
    """Whether *every* value fits is only asked of whole numbers; else whether the kinds go together."""
    declared = column.declared
    base = re.split(r"[ (]", declared)[0]
    base = "double precision" if declared.startswith("double precision") else base
    if pa.types.is_boolean(arrow):
        return base not in _TIMES and base != "json"
    if pa.types.is_integer(arrow):
        if base in _INTEGER_BITS:
            return _INTEGER_BITS[base] >= arrow.bit_width and "unsigned" not in declared
        return base not in _TIMES and base not in ("boolean", "uuid")
    if pa.types.is_floating(arrow):
        return base not in _TIMES and base not in _INTEGER_BITS and base not in ("boolean", "uuid")
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        return base not in _NUMBERS and base not in ("boolean", "time")
    if pa.types.is_binary(arrow):
        return base not in _NUMBERS and base not in _TIMES
    # Text is read by the database as whatever the column is: only the values can tell.
    return True


def check_staging(dialect: Dialect, connection: Any, target: Target) -> None:
    """Whether this user may make the tables that bulk loading needs."""
    name = f"ps_check_{uuid.uuid4().hex}"
    try:
        dialect.loader.create_staging(connection, name, target)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {dialect.quote(name)}")
    except Exception as e:
        raise ConnectorError(
            f"Delivery.BULK_LOAD makes tables beside {target.table!r} in {dialect.address} and drops them, "
            f"which this user may not: {dialect.sentence(e)}. Grant it CREATE and DROP (PostgreSQL: CREATE "
            "on the schema)."
        ) from e


def check_transactional(table: TableInfo, where: str) -> None:
    """Whether a transaction can undo what it wrote here."""
    if not table.transactional:
        raise ConnectorError(
            f"{where} takes no part in transactions, so nothing written to it can be taken back: "
            "ALTER TABLE ... ENGINE=InnoDB",
            code=Code.DATABASE_TABLE,
        )
