"""What sinks into tables have in common: the columns they write, whether they fit, a name for each run."""

from __future__ import annotations

import copy
import uuid
from abc import abstractmethod
from typing import ClassVar, Generic, Self, TypeVar

import pyarrow as pa

from penstock.connectors.files.column_types import schema_of
from penstock.connectors.lake.table_files import TableLayout
from penstock.connectors.sink import TypedSink
from penstock.core.errors import ConfigError
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo, TypeInformation

R = TypeVar("R")


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


class TableSink(TypedSink, Generic[R]):
    """Appends to a table, which is created if it does not exist; ``R`` is what writers need to know of it."""

    package: ClassVar[tuple[str, str]]
    """The table format's Python package, and the extra that brings it."""

    def __init__(
        self, schema: pa.Schema | RowTypeInfo | None, partition_by: tuple[str, ...], layout: TableLayout
    ) -> None:
        self._schema = schema_of(schema) if isinstance(schema, RowTypeInfo) else schema
        self._partition_by = partition_by
        self._layout = layout
        self._ready: R | None = None
        self._run = ""

    def typed(self, type_info: TypeInformation | None) -> Self:
        """The same sink for a stream of this type, which gives the schema if none was given."""
        if self._schema is not None or not isinstance(type_info, RowTypeInfo):
            return self
        typed = copy.copy(self)
        typed._schema = schema_of(type_info)
        return typed

    def check(self) -> None:
        """Create the table if there is none, else see that the records fit it."""
        require(*self.package)
        self._ready = self._match()
        # Epochs of a job that starts from nothing begin at 1 again, and must not look committed.
        self._run = uuid.uuid4().hex[:16]

    @property
    def _run_name(self) -> str:
        return self._run or uuid.uuid4().hex[:16]

    @abstractmethod
    def _match(self) -> R:
        """How to write to the table as it is now."""

    def _matched(self) -> R:
        if self._ready is None:
            self._ready = self._match()
        return self._ready

    def _schema_for(self, new_table: str) -> pa.Schema:
        """The columns of a table that is to be created."""
        if self._schema is None:
            raise ConfigError(
                f"there is no {new_table}, and {type(self).__name__} does not know the records' columns; "
                "give it a schema, or declare the stream's type as Types.ROW_NAMED"
            )
        unknown = [name for name in self._partition_by if name not in self._schema.names]
        if unknown:
            raise ConfigError(f"partition_by names {', '.join(unknown)}, which is not among the columns")
        return self._schema
