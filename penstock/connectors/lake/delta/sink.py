"""A Delta table as a sink: each checkpoint appends one transaction, exactly once.

Writers put data files into the table's directory; nobody reads them until the committer names them in
the table's log, with all other files of the epoch, in one entry.

What a crashed attempt wrote and no checkpoint knows stays behind as orphan files.  They take space and
nothing else; the table's own ``VACUUM`` removes them.  A run in BATCH mode that fails removes its own.

Statistics of a data file, from the Parquet footer, let readers of Delta's log skip files.  A bound
that is wrong hides records, so a column whose bound would be doubtful gets none: floating point (Parquet
leaves out NaN, Spark orders it last), decimals, long texts.

The committer makes one transaction of the table per epoch, known again by its writers.  Beside
the files, a transaction notes in the log, for every subtask that contributed, the epoch up to which that
subtask's output is in the table (Delta's ``txn`` action).  Files and notes are one log entry, so they are
there together or not at all: a committable whose epoch is noted is committed, and every other one is not.
Two drivers that try the same epoch at the same time meet at the log: the second entry would carry the same
note, which Delta refuses as a conflict, and looking again shows that it is done.

Other people's commits are conflicts only if they change what an append depends on; then too the answer
is to look again and repeat.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.connectors.lake.delta.table import TableAddress, arrow_schema, check_writable
from penstock.connectors.lake.table_files import DataFile, DataStorage, TableFilesWriter, TableLayout
from penstock.connectors.lake.table_sink import (
    TableCommitter,
    TableConflict,
    TableSink,
    match_columns,
    partition_columns,
)
from penstock.connectors.sink import Committer, SinkWriter, WriterContext
from penstock.core.clock import Clock
from penstock.core.durations import to_bytes
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo

_LONGEST_TEXT = 64
_MILLISECOND = dt.timedelta(milliseconds=1)


def file_stats(metadata: Any) -> str:
    """The ``stats`` of an add action."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).name
        if metadata.schema.column(index).path != name:
            continue  # a field inside a list, map or struct
        groups = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        found = [group.statistics for group in groups]
        if any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.num_values]
        if bounded and all(each.has_min_max for each in bounded):
            low = _bound(min(each.min for each in bounded), upper=False)
            high = _bound(max(each.max for each in bounded), upper=True)
            if low is not None and high is not None:
                least[name], greatest[name] = low, high
    stats = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(stats, ensure_ascii=False, separators=(",", ":"))


def _bound(value: Any, upper: bool) -> Any | None:
    """A value as the log writes it, or ``None`` if it should not be written."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, dt.datetime):
        # The log has milliseconds: round outwards.
        floor = value.replace(microsecond=value.microsecond // 1000 * 1000)
        rounded = floor + _MILLISECOND if upper and floor != value else floor
        text = rounded.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else text + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return None


def partition_text(value: Any) -> str | None:
    """A partition value as the log writes it. Delta takes empty text for null, and so do its readers."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return utc.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)


class AddedFile(NamedTuple):
    """A data file as the log will hold it."""

    path: str
    size: int
    partition: dict[str, str | None]
    modified_ms: int
    stats: str


class DeltaCommittable(NamedTuple):
    """What one subtask wrote in one epoch: all of it is committed, or none."""

    app_id: str
    """Whose the files are: of this subtask, sink, job, and start of the job."""
    epoch: int
    """Grows from one committable of an ``app_id`` to the next."""
    files: tuple[AddedFile, ...]


class DeltaWriter(TableFilesWriter):
    """Writes data files of one subtask."""

    def __init__(self, address: TableAddress, layout: TableLayout, run: str, context: WriterContext) -> None:
        super().__init__(layout, address.storage(), address.uri, run, context)
        self._app_id = f"penstock/{context.job_name}/{context.sink_id}/{run}/{context.subtask}"
        self._clock: Clock = context.clock

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        now_ms = self._clock.now_ms()
        added = tuple(self._describe(done, now_ms) for done in self.take())
        return [DeltaCommittable(self._app_id, int(epoch), added)] if added else []

    def _describe(self, done: DataFile, now_ms: int) -> AddedFile:
        texts = [partition_text(value) for value in done.values]
        partition = dict(zip(self._layout.partition_by, texts, strict=True))
        return AddedFile(done.path, done.size, partition, now_ms, file_stats(done.metadata))


class DeltaCommitter(TableCommitter[TableAddress]):
    """Appends to the table's log."""

    def is_noted(self, table: Any, item: DeltaCommittable) -> bool:
        noted = table.transaction_version(item.app_id)
        return noted is not None and noted >= item.epoch

    def append(self, table: Any, items: list[DeltaCommittable]) -> None:
        deltalake = require("deltalake", "delta")
        transaction = require("deltalake.transaction", "delta")
        self._check(table, items)
        actions = [
            transaction.AddAction(path, size, partition, modified_ms, True, stats)
            for item in items
            for path, size, partition, modified_ms, stats in item.files
        ]
        notes = [deltalake.Transaction(item.app_id, item.epoch) for item in items]
        properties = deltalake.CommitProperties(
            custom_metadata={"penstock.epoch": str(items[0].epoch)}, app_transactions=notes
        )
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), list(self._partition_by), commit_properties=properties
            )
        except deltalake.exceptions.CommitFailedError as e:
            raise TableConflict from e

    def place(self) -> tuple[DataStorage, str]:
        return self._address.storage(), self._address.uri

    def make_durable(self, since: Any) -> None:
        first = 0 if since is None else since.version() + 1
        self._address.sync_log(first)

    def _check(self, table: Any, items: list[DeltaCommittable]) -> None:
        """The table may have changed since the job started, and somebody may have cleaned up."""
        uri = self._address.uri
        check_writable(uri, table)
        partition_by = table.metadata().partition_columns
        self.check_layout(f"the Delta table {uri!r}", arrow_schema(table), partition_by)
        storage = self._address.storage()
        paths = [added.path for item in items for added in item.files]
        gone = [path for path in paths if not storage.exists(f"{uri}/{path}")]
        if gone:
            raise ConnectorError(
                f"cannot commit to the Delta table {uri!r}: its data file {gone[0]!r} does not exist. Either "
                "VACUUM removed it before it was committed (keep its retention longer than a job may stand "
                "still), or the driver does not see the storage that the executors write to, or the snapshot "
                "is of a sink that wrote to another table: then give this one another uid()."
            )


class DeltaSink(TableSink[TableLayout]):
    """Appends to a Delta table, which is created if it does not exist.

    ``schema`` is a ``pa.Schema`` or the type of a ROW.  Without it, the stream's declared type is taken if
    it is a ROW, else the schema of the table, which must then exist.  ``partition_by`` names columns; for
    an existing table it may be left out.  ``storage_options`` are those of the ``deltalake`` package
    (``AWS_ENDPOINT_URL`` and so on); data files are written through fsspec, for S3 with the same options, and
    with ``file_options`` for any other store.  ``properties`` are table properties for a new table.
    """

    package = ("deltalake", "delta")

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | RowTypeInfo | None = None,
        *,
        partition_by: list[str] | tuple[str, ...] = (),
        storage_options: dict[str, str] | None = None,
        file_options: dict[str, Any] | None = None,
        properties: dict[str, str] | None = None,
        target_file_size: int | str = "128 mb",
        compression: str = "snappy",
    ) -> None:
        layout = TableLayout(None, (), to_bytes(target_file_size), compression)
        super().__init__(schema, tuple(partition_by), layout)
        self._address = TableAddress.of(path, storage_options, file_options)
        self._properties = dict(properties or {})

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DeltaWriter(self._address, self._matched(), self._run_name, context)

    def create_committer(self) -> Committer:
        layout = self._matched()
        return DeltaCommitter(self._address, layout.schema, layout.partition_by, self._run)

    def _match(self) -> TableLayout:
        """How to write to the table as it is now."""
        uri = self._address.uri
        table = self._address.find() or self._create()
        check_writable(uri, table)
        there = arrow_schema(table)
        schema = match_columns(
            f"the Delta table {uri!r}", there if self._schema is None else self._schema, there
        )
        partition_by = tuple(table.metadata().partition_columns)
        partition_columns(f"the Delta table {uri!r}", schema, self._partition_by, partition_by)
        return replace(self._layout, schema=schema, partition_by=partition_by)

    def _create(self) -> Any:
        schema = self._schema_for(f"Delta table at {self._address.uri!r}")
        table = self._address.create(schema, self._partition_by, self._properties)
        self._address.sync_log(0)
        return table
