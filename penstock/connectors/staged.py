"""Epochs as files: each epoch's rows are staged as Parquet files and handed to a function on the driver.

The phases of one epoch:

1. writers gather rows as Arrow columns; beyond 64 MB they go to files of their own;
2. on the barrier each writer completes its Parquet files and names them after the epoch;
3. the snapshot that holds the :class:`StagedFiles` is published;
4. the committer calls ``deliver(epoch, files)`` with the files of all subtasks;
5. it writes a mark with the names of these files, and 6. removes them.

A crash before 3: the files are leftovers, removed by the next attempt.  Between 3 and 5: the function is
called again, with the same epoch and the same rows.  Behind 5: the mark says that it is done.  So the
function must be idempotent in the epoch, and needs nothing else to be exact.

A file is called ``<generation>-<subtask>-<run>-<number>-<epoch>.parquet``; until the epoch is known, which
is at the barrier, a part that was too large for memory ends in ``.open``.  All files of a sink are in one
directory named after job and sink, so that a later attempt knows what an earlier one left behind.

Why a mark, and not just the absence of the files: files go one by one, and a task that was not told of a
publication brings its committable once more, alone.  Either way a repeat could see a part of the epoch.  The
mark is written in one step and names all files; whoever finds the names there has nothing left to do.

Marks are for the newest epochs.  Of older ones one file says up to which epoch each attempt's were delivered,
for a job that is started from a savepoint of long ago.  That is enough: an attempt's epochs are delivered in
order, and none of them twice.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.parquet_writer import conform
from penstock.connectors.sink import (
    CommitOutcome,
    Committer,
    Sink,
    SinkWriter,
    TypedSink,
    WriterContext,
    digest_of_sink,
)
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, to_arrow
from penstock.storage.contract import Storage
from penstock.storage.places import join, normalise, storage_of

_MEMORY_BYTES = 64 << 20
_NAME = re.compile(r"(?P<generation>\d+)-\d+-\w+-\d+(-(?P<epoch>\d+)\.parquet|\.open)")
_KEPT_MARKS = 100
_KEPT_ATTEMPTS = 1000
_MARK = re.compile(r"done-(\d+)-(\d+)\.json")
_PASSED = "passed.json"
Deliver = Callable[[int, Sequence[str]], None]
"""From an epoch and its files to something that can be repeated."""


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The committable: what one subtask staged for one epoch."""

    epoch: Epoch
    directory: str
    names: tuple[str, ...]
    rows: int


class EpochFileWriter(SinkWriter):
    """Gathers the rows of one subtask and stages them at barriers."""

    def __init__(self, directory: str, schema: pa.Schema | None, context: WriterContext) -> None:
        self._storage: Storage = storage_of(directory)
        self._directory = directory_of(directory, context.job_name, context.sink_id)
        self._schema = schema
        self._stem = f"{context.generation}-{context.subtask}-{uuid.uuid4().hex[:16]}"
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0
        self._number = 0
        self._open: list[str] = []
        self._storage.make_own_directory(self._directory)
        if context.subtask == 0:
            remove_leftovers(self._directory, context.generation, context.restored_epoch)

    def write(self, batch: Batch) -> None:
        columns = self._columns(batch)
        self._batches.append(columns)
        self._bytes += columns.nbytes
        self._rows += columns.num_rows
        if self._bytes >= _MEMORY_BYTES:
            name = f"{self._next_stem()}.open"
            self._store(name)
            self._open.append(name)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        names = []
        for name in self._open:
            named = f"{name.removesuffix('.open')}-{epoch}.parquet"
            self._storage.move(join(self._directory, name), join(self._directory, named))
            names.append(named)
        if self._batches:
            names.append(f"{self._next_stem()}-{epoch}.parquet")
            self._store(names[-1])
        self._storage.sync_directories(join(self._directory, name) for name in names)
        staged = StagedFiles(epoch, self._directory, tuple(names), self._rows)
        self._open, self._rows = [], 0
        return [staged] if names else []

    def close(self) -> None:
        for name in self._open:
            self._storage.remove(join(self._directory, name))
        self._open, self._batches = [], []

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        if self._schema is None:
            if batch.columns is None:
                raise ConnectorError(
                    "the records are Python objects and nothing says which columns they have; declare "
                    "output_type=Types.ROW_NAMED(...) on the step before, or give the sink a pyarrow schema"
                )
            self._schema = batch.columns.schema
        return conform(batch, self._schema)

    def _next_stem(self) -> str:
        self._number += 1
        return f"{self._stem}-{self._number}"

    def _store(self, name: str) -> None:
        stream = self._storage.create(join(self._directory, name))
        pq.write_table(pa.Table.from_batches(self._batches), stream)
        self._storage.seal(stream)
        self._batches, self._bytes = [], 0


def remove_leftovers(directory: str, generation: int, restored: Epoch | None) -> None:
    """What attempts before ``generation`` staged behind the restored epoch; the caller may be the zombie."""
    storage = storage_of(directory)
    for path in storage.list_files(directory) if storage.exists(directory) else []:
        name = _NAME.fullmatch(path.rpartition("/")[2])
        if name is None or int(name["generation"]) >= generation:
            continue
        if name["epoch"] is None or restored is None or int(name["epoch"]) > restored:
            storage.remove(path)


def directory_of(base: str, job_name: str, sink_id: str) -> str:
    """Where all files of a sink are."""
    return join(base, digest_of_sink(job_name, sink_id))


class EpochCommitter(Committer):
    """Calls ``deliver(epoch, files)`` for each epoch that has no mark. Oldest first; used by one thread.

    With ``keep`` the files are left to whoever they were delivered to.  ``storage`` finds the file system
    of a path.
    """

    def __init__(
        self,
        deliver: Callable[[int, Sequence[str]], None],
        keep: bool = False,
        storage: Callable[[str], Storage] = storage_of,
        base: str | None = None,
    ) -> None:
        self._base = base
        """Where sinks have their directories, if what a failed run staged is to be removed."""
        self._deliver = deliver
        self._keep = keep
        self._storage = storage
        self._marks: dict[str, list[tuple[int, int]]] = {}

    def commit(self, committables: Sequence[StagedFiles]) -> Sequence[CommitOutcome]:
        epochs: dict[tuple[int, str], list[StagedFiles]] = {}
        for staged in committables:
            epochs.setdefault((int(staged.epoch), staged.directory), []).append(staged)
        outcomes = {key: self._commit(*key, group) for key, group in sorted(epochs.items())}
        return [outcomes[int(staged.epoch), staged.directory] for staged in committables]

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        if self._base is not None:
            remove_leftovers(directory_of(self._base, job_name, sink_id), generation + 1, None)

    def _commit(self, epoch: int, directory: str, group: list[StagedFiles]) -> CommitOutcome:
        storage = self._storage(directory)
        names = sorted({name for staged in group for name in staged.names})
        files = [join(directory, name) for name in names]
        done = self._is_marked(directory, epoch, names) or self._is_long_past(directory, epoch, names)
        if not done:
            self._check_all_there(epoch, files, group)
            self._deliver(epoch, files)
            self._write_mark(directory, epoch, names)
        for file in () if self._keep else files:
            storage.remove(file)
        return CommitOutcome.ALREADY_COMMITTED if done else CommitOutcome.COMMITTED

    def _is_marked(self, directory: str, epoch: int, names: list[str]) -> bool:
        """Whether these very files were delivered: a job begun anew counts its epochs from 1 again."""
        mark = _mark(directory, _generation(names), epoch)
        return self._storage(mark).exists(mark) and set(names) <= set(self._read(mark))

    def _is_long_past(self, directory: str, epoch: int, names: list[str]) -> bool:
        """Whether they were, and their mark is gone. Files that are there are never taken for past."""
        if any(self._storage(directory).exists(join(directory, name)) for name in names):
            return False
        return bool(epoch <= self._passed(directory).get(str(_generation(names)), -1))

    def _check_all_there(self, epoch: int, files: Iterable[str], group: list[StagedFiles]) -> None:
        lost = [file for file in files if not self._storage(file).exists(file)]
        if lost:
            rows = sum(staged.rows for staged in group)
            raise ConnectorError(
                f"the {rows} rows of epoch {epoch} cannot be handed over: the staged file {lost[0]} was "
                "removed. Restore it, or start the job from a snapshot before that epoch"
            )

    def _write_mark(self, directory: str, epoch: int, names: list[str]) -> None:
        marks = self._marks.get(directory)
        if marks is None:
            found = map(_mark_of, self._storage(directory).list_files(directory))
            marks = self._marks[directory] = sorted(mark for mark in found if mark is not None)
        this = (_generation(names), epoch)
        self._write(_mark(directory, *this), names)
        if this not in marks:
            marks.append(this)
        if len(marks) > 2 * _KEPT_MARKS:
            self._forget(directory, sorted(marks)[:-_KEPT_MARKS])

    def _forget(self, directory: str, old: list[tuple[int, int]]) -> None:
        """Keep of these marks only how far their attempts had come."""
        passed = self._passed(directory)
        for generation, epoch in old:
            passed[str(generation)] = max(epoch, passed.get(str(generation), -1))
        newest = sorted(passed, key=int)[-_KEPT_ATTEMPTS:]
        self._write(join(directory, _PASSED), {generation: passed[generation] for generation in newest})
        for mark in old:
            self._storage(directory).remove(_mark(directory, *mark))
        self._marks[directory] = sorted(set(self._marks[directory]) - set(old))

    def _passed(self, directory: str) -> dict[str, int]:
        path = join(directory, _PASSED)
        return dict(self._read(path)) if self._storage(path).exists(path) else {}

    def _read(self, path: str) -> Any:
        with self._storage(path).open_read(path) as stream:
            return json.loads(bytes(stream.read()))

    def _write(self, path: str, value: Any) -> None:
        """Write a small file in one step."""
        storage = self._storage(path)
        draft = join(path.rpartition("/")[0], f".{uuid.uuid4().hex}")
        stream = storage.create(draft)
        stream.write(json.dumps(value).encode())
        storage.seal(stream)
        storage.move(draft, path)
        storage.sync_directories([path])


def _generation(names: Iterable[str]) -> int:
    """That of the attempt that wrote an epoch's files."""
    return max(int(name.partition("-")[0]) for name in names)


def _mark(directory: str, generation: int, epoch: int) -> str:
    return join(directory, f"done-{generation}-{epoch}.json")


def _mark_of(path: str) -> tuple[int, int] | None:
    found = _MARK.fullmatch(path.rpartition("/")[2])
    return None if found is None else (int(found[1]), int(found[2]))


class StagedEpochs(TypedSink):
    """Stages epochs below ``directory`` and gives each to ``deliver``.

    ``directory`` must be seen by the driver and by every slot.  Job name and sink id together must be one
    job's only there.  ``deliver`` stays on the driver; it is not sent to the slots.  ``schema`` is that of
    the files; without one the stream's declared type decides, else the columns as they come.
    """

    def __init__(self, deliver: Deliver, directory: str, schema: pa.Schema | None = None) -> None:
        self._deliver: Deliver | None = deliver
        self.directory = normalise(directory)
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_deliver": None}

    def typed(self, type_info: Any) -> Sink:
        if self.schema is not None:
            return self
        sink = copy(self)
        sink.schema = schema_of(type_info)
        sink._deliver = self._deliver
        return sink

    def check(self) -> None:
        storage_of(self.directory).make_own_directory(self.directory)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return EpochFileWriter(self.directory, self.schema, context)

    def create_committer(self) -> Committer:
        return EpochCommitter(self.deliver, base=self.directory)

    def deliver(self, epoch: int, files: Sequence[str]) -> None:
        """Call the function. Only on the driver."""
        assert self._deliver is not None, "only the driver's copy of the sink delivers"
        self._deliver(epoch, files)


def schema_of(type_info: TypeInformation) -> pa.Schema:
    """Columns for records of a declared type; what is no ROW is one column, ``value``."""
    column = to_arrow(type_info)
    if column is None:
        raise ConfigError(
            f"records of type {type_info!r} have no columns: a field has no column type of its own. Map them "
            "to a ROW of plain types, text for the rest, or give the sink a pyarrow schema"
        )
    if isinstance(type_info, RowTypeInfo) or pa.types.is_struct(column):
        return pa.schema(list(column))
    return pa.schema([("value", column)])
