"""Whether the records of a stream fit the columns of a table."""

from __future__ import annotations

import pyarrow as pa

from penstock.core.errors import ConfigError


def match_columns(what: str, wanted: pa.Schema, there: pa.Schema) -> pa.Schema:
    """The schema to write: our columns with the table's types; a ``ConfigError`` says what differs.

    ``what`` names the table.  Columns of the table that may be null need not be written.
    """
    unknown = [name for name in wanted.names if name not in there.names]
    needed = [column.name for column in there if not column.nullable and column.name not in wanted.names]
    if unknown or needed:
        raise ConfigError(
            f"{what} does not fit the records: "
            + (f"it has no column {', '.join(unknown)}; " if unknown else "")
            + (f"it asks for {', '.join(needed)}; " if needed else "")
            + f"its columns are {', '.join(there.names)}"
        )
    for column in wanted:
        kind = there.field(column.name).type
        if not _fits(column.type, kind):
            raise ConfigError(
                f"{what} has column {column.name!r} of type {kind}, the records have {column.type}; change "
                "the schema given to the sink, or cast the column"
            )
    return pa.schema([there.field(name) for name in wanted.names])


def partition_columns(what: str, schema: pa.Schema, given: tuple[str, ...], there: tuple[str, ...]) -> None:
    """Raise a ``ConfigError`` unless a table partitioned by ``there`` can be written as asked."""
    if given and given != there:
        raise ConfigError(
            f"{what} is partitioned by {list(there)}, not by {list(given)}; leave out partition_by, or write "
            "to another table"
        )
    if any(name not in schema.names for name in there) or len(there) == len(schema):
        raise ConfigError(
            f"the records for {what} need its partition columns {list(there)} and at least one more; they "
            f"have {', '.join(schema.names)}"
        )


def _fits(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether values of one type are written as the other without loss; time units are the table's own."""
    if pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs):
        return (ours.tz is None) == (theirs.tz is None)
    if pa.types.is_nested(ours):
        # Cast value by value; a cast that fails names the column.
        return type(ours) is type(theirs)
    return bool(_plain(ours) == _plain(theirs))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind
