"""Columns of a database as columns of Arrow: one table of types per database.

What has no faithful counterpart comes as text, written by the database itself (JSON, UUID, arrays,
intervals, MySQL's ``TIME``, which is a span of up to 838 hours).  Times with a zone come as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.core.errors import ConnectorError
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, Types


class KeyKind(Enum):
    """What a column is good for when rows are read in its order."""

    INTEGER = "whole numbers"
    DECIMAL = "decimal numbers"
    DATE = "dates"
    TIMESTAMP = "timestamps"
    ORDERED = "ordered, but not divisible into ranges"
    UNFIT = "values that do not survive the way out and back in, or compare otherwise than they sort"


DIVISIBLE = frozenset({KeyKind.INTEGER, KeyKind.DECIMAL, KeyKind.DATE, KeyKind.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as it will be read."""

    name: str
    declared: str
    """The type as the database writes it, for messages."""
    nullable: bool
    type_info: TypeInformation
    arrow: pa.DataType
    kind: KeyKind
    scale: int = 0
    """Digits behind the point, of :attr:`KeyKind.DECIMAL`."""
    expression: str = "{}"
    """What to select, with the quoted name for ``{}``."""


_TEXT = (Types.STRING(), pa.string())
_INTEGERS = {
    8: (Types.BYTE(), pa.int8()),
    16: (Types.SHORT(), pa.int16()),
    32: (Types.INT(), pa.int32()),
    64: (Types.LONG(), pa.int64()),
}
_BYTES = (Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary())
_BOOLEAN = (Types.BOOLEAN(), pa.bool_())
_FLOAT, _DOUBLE = (Types.FLOAT(), pa.float32()), (Types.DOUBLE(), pa.float64())
_DATE = (Types.SQL_DATE(), pa.date32())
_TIME = (Types.SQL_TIME(), pa.time64("us"))
_TIMESTAMP = (Types.SQL_TIMESTAMP(), pa.timestamp("us"))

_IN_BRACKETS = re.compile(r"\(([^)]*)\)")
_MYSQL_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
_MYSQL_TEXT = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_MYSQL_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_POSTGRES_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_POSTGRES_TEXT = ("character varying", "character", "text")


def mysql_column(name: str, declared: str, nullable: bool) -> Column:
    """A column of MariaDB or MySQL; ``declared`` is its ``COLUMN_TYPE``."""
    written, first, second = _parts(declared)
    base, unsigned, _ = written.partition(" unsigned")

    def column(typed: tuple[Any, Any], kind: KeyKind, expression: str = "{}", scale: int = 0) -> Column:
        return Column(name, declared, nullable, *typed, kind, scale, expression)

    if base == "tinyint" and first == 1:
        return column(_BOOLEAN, KeyKind.UNFIT, "{} <> 0")
    if base in _MYSQL_BITS:
        bits = _MYSQL_BITS[base]
        wider = min(64, bits * 2) if unsigned and base != "mediumint" else bits
        return column(_INTEGERS[wider], KeyKind.INTEGER)
    if base in _MYSQL_TEXT:
        return column(_TEXT, KeyKind.ORDERED)
    if base in _MYSQL_BYTES:
        return column(_BYTES, KeyKind.ORDERED)
    match base:
        case "decimal":
            return column(_decimal(first or 10, second), KeyKind.DECIMAL, scale=second)
        case "float":
            # The server rounds a FLOAT to six digits when it writes it; a sum is a DOUBLE and exact.
            return column(_FLOAT, KeyKind.UNFIT, "{} + 0e0")
        case "double":
            return column(_DOUBLE, KeyKind.UNFIT)
        case "date":
            return column(_DATE, KeyKind.DATE)
        case "datetime" | "timestamp":
            return column(_TIMESTAMP, KeyKind.TIMESTAMP)
        case "year":
            return column(_INTEGERS[16], KeyKind.INTEGER)
        case "bit":
            return column(_BOOLEAN if first == 1 else _INTEGERS[64], KeyKind.UNFIT, "{} + 0")
        case _:
            return column(_TEXT, KeyKind.UNFIT, "CAST({} AS CHAR)")


def postgresql_column(name: str, declared: str, nullable: bool) -> Column:
    """A column of PostgreSQL; ``declared`` is what ``format_type`` says."""
    base, first, second = _parts(declared)

    def column(typed: tuple[Any, Any], kind: KeyKind, expression: str = "{}", scale: int = 0) -> Column:
        return Column(name, declared, nullable, *typed, kind, scale, expression)

    if base in _POSTGRES_BITS:
        return column(_INTEGERS[_POSTGRES_BITS[base]], KeyKind.INTEGER)
    if base in _POSTGRES_TEXT:
        return column(_TEXT, KeyKind.ORDERED)
    if base == "numeric" and first is not None:
        return column(_decimal(first, second), KeyKind.DECIMAL, scale=second)
    match base:
        case "boolean":
            return column(_BOOLEAN, KeyKind.ORDERED)
        case "real":
            return column(_FLOAT, KeyKind.UNFIT)
        case "double precision":
            return column(_DOUBLE, KeyKind.UNFIT)
        case "bytea":
            return column(_BYTES, KeyKind.ORDERED)
        case "date":
            return column(_DATE, KeyKind.DATE)
        case "time without time zone":
            return column(_TIME, KeyKind.ORDERED)
        case "timestamp without time zone":
            return column(_TIMESTAMP, KeyKind.TIMESTAMP)
        case "timestamp with time zone":
            return column(_TIMESTAMP, KeyKind.TIMESTAMP, "{} AT TIME ZONE 'UTC'")
        case "uuid" | "numeric":
            return column(_TEXT, KeyKind.ORDERED, "CAST({} AS text)")
        case _:
            return column(_TEXT, KeyKind.UNFIT, "CAST({} AS text)")


def _parts(declared: str) -> tuple[str, int | None, int]:
    """Name of the type, and the two numbers in brackets."""
    found = _IN_BRACKETS.search(declared)
    numbers = [int(n) for n in found[1].split(",") if n.strip().isdigit()] if found else []
    name = _IN_BRACKETS.sub("", declared).lower()
    return name, numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else 0


def _decimal(precision: int, scale: int) -> tuple[TypeInformation, pa.DataType]:
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return Types.BIG_DEC(), arrow


def row_type(columns: Sequence[Column]) -> RowTypeInfo:
    """The type of the records."""
    return RowTypeInfo([column.type_info for column in columns], [column.name for column in columns])


def to_batch(columns: Sequence[Column], fetched: Sequence[Sequence[Any]], where: str) -> pa.RecordBatch:
    """Fetched values, a sequence per column, as Arrow."""
    arrays = [_array(column, values, where) for column, values in zip(columns, fetched, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


def _array(column: Column, values: Sequence[Any], where: str) -> pa.Array:
    if column.arrow == pa.bool_():
        values = [None if value is None else bool(value) for value in values]
    try:
        return pa.array(values, column.arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as e:
        raise ConnectorError(
            f"column {column.name!r} of {where} is {column.declared}, read as {column.arrow}, and a value "
            f"does not fit: {e}. Leave such rows out with set_condition(...), or the column with "
            "set_columns(...)"
        ) from e
