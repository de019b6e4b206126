"""What sinks into tables have in common: their columns, a name for each run, and how an epoch is committed.

To a table that several may write to there is one transaction per epoch, known again when repeated.  A
table format gives three things: a fresh look at the table, whether the table's own metadata *notes* a
committable as done, and an append that puts files and notes into the table in one step, or fails with a
conflict if somebody else changed the table since the look.  That is enough to be exact: a commit that was
killed, repeated, or tried by two drivers at once finds its note, or finds that nothing happened.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from penstock.connectors.files.column_types import schema_of
from penstock.connectors.lake.table_files import DataStorage, TableLayout, remove_files_of
from penstock.connectors.sink import CommitOutcome, Committer, TypedSink
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo, TypeInformation

R = TypeVar("R")
_TRIES = 5
"""Per call; after that the coordinator's own retries, with their pauses."""


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


class TableConflict(Exception):
    """Somebody else changed the table since it was looked at."""


class Address(Protocol):
    """Where a table is."""

    def open(self) -> Any:
        """The table as it is now; a ``ConnectorError`` if there is none."""
        ...


AddressT = TypeVar("AddressT", bound=Address)


class TableCommitter(Committer, Generic[AddressT]):
    """Commits what has an ``epoch``, oldest first. Runs on the driver.

    ``schema`` and ``partition_by`` are the table's as the writers know it, ``run`` is in the names of the
    files of this run.
    """

    def __init__(self, address: AddressT, schema: Any, partition_by: tuple[str, ...], run: str = "") -> None:
        self._address = address
        self._schema = schema
        self._partition_by = partition_by
        self._run = run

    @abstractmethod
    def place(self) -> tuple[DataStorage, str]:
        """Where data files are: the storage, and the directory's name there."""

    @abstractmethod
    def is_noted(self, table: Any, item: Any) -> bool:
        """Whether the table says that this committable is in it."""

    @abstractmethod
    def append(self, table: Any, items: list[Any]) -> None:
        """Add the files of all ``items`` and their notes in one step; raises ``TableConflict``."""

    def check_layout(self, what: str, schema: Any, partition_by: Sequence[str]) -> None:
        """Refuse to append if the table, called ``what``, has changed since the job started."""
        match_columns(what, self._schema, schema)
        if tuple(partition_by) != self._partition_by:
            raise ConnectorError(
                f"{what} is partitioned by {list(partition_by)} now, and was by {list(self._partition_by)} "
                "when the job started; start the job again"
            )

    def make_durable(self, since: Any) -> None:
        """Wait for the disk, if the format's own client does not: for all that was noted after ``since``.

        ``None`` means for everything: the driver may have died between an append and this call.
        """

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        if self._run:
            remove_files_of(self._run, *self.place())

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        outcomes: dict[int, CommitOutcome] = {}
        order = sorted(range(len(committables)), key=lambda index: committables[index].epoch)
        for _, group in itertools.groupby(order, key=lambda index: committables[index].epoch):
            indices = list(group)
            done = self._commit_epoch([committables[index] for index in indices])
            outcomes.update(zip(indices, done, strict=True))
            if CommitOutcome.RETRY in done:
                break  # a newer epoch's note would say that this one is done
        return [outcomes.get(index, CommitOutcome.RETRY) for index in range(len(committables))]

    def _commit_epoch(self, items: list[Any]) -> list[CommitOutcome]:
        for _ in range(_TRIES):
            table = self._address.open()
            done = [self.is_noted(table, item) for item in items]
            fresh = [item for item, is_done in zip(items, done, strict=True) if not is_done]
            try:
                if fresh:
                    self.append(table, fresh)
            except TableConflict:
                continue
            self.make_durable(table if len(fresh) == len(items) else None)
            return [
                CommitOutcome.ALREADY_COMMITTED if is_done else CommitOutcome.COMMITTED for is_done in done
            ]
        return [CommitOutcome.RETRY] * len(items)
