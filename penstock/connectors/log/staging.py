"""Transactions: records staged outside the log, then appended to it once, whatever crashes.

The phases of one transaction (one sink subtask, one epoch, one partition):

1. the writer spools rows to ``pending/<transaction>.open``, or keeps them in memory if they are few;
2. on the barrier it completes the frame, fsyncs it and renames it to ``pending/<transaction>-<epoch>.frame``;
3. the snapshot that holds the :class:`Committable` is published;
4. the committer, under the partition's lock, appends the staged frame as one frame that carries producer
   and epoch, *unless the partition already has that producer's epoch*; 5. fsync; 6. the file is removed.

A crash before 3: the file is a leftover and is removed by the next attempt.  A crash behind 3: the commit
is done again; between 4 and 6 it finds the epoch there and only removes the file.

A producer is ``job/sink/subtask@run``, with a run that every writer draws anew.  Epochs of one producer
only grow, so its highest one says it all.  Were the run kept over restarts, a job started again without its
checkpoints, or from an old savepoint, would count through epochs that the log has seen, and its new output
would be taken for a repetition.  Deduplication does not need it: a repeated commit brings the
committable, and with it the producer, of the attempt that staged it, at whatever parallelism.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.files import write_all
from penstock.connectors.log.frame import MAX_HEADER_SIZE, FrameHeader, describe_batches, parse_header
from penstock.connectors.log.partition import NAME, PENDING, PartitionWriter
from penstock.connectors.sink import CommitOutcome, digest_of_sink
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.storage.own_files import open_file, sync_path

_log = log_of(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who stages: one writer of one attempt."""

    job_name: str
    sink_id: str
    subtask: int
    generation: int
    run: str
    """Drawn at random by each writer."""

    @property
    def producer(self) -> str:
        """The name that committed frames carry."""
        return f"{self.job_name}/{self.sink_id}/{self.subtask}@{self.run}"

    @property
    def sink_digest(self) -> str:
        """The sink, in a form that fits a file name."""
        return digest_of_sink(self.job_name, self.sink_id)

    @property
    def stem(self) -> str:
        """What the names of this writer's files start with."""
        return f"{self.sink_digest}-{self.subtask}-{self.run}-{self.generation}"


@dataclass(frozen=True, slots=True)
class Committable:
    """A staged transaction, as the snapshot remembers it."""

    partition: int
    file: str
    producer: str
    epoch: Epoch
    records: int


class Transaction:
    """Gathers the rows of one partition until the barrier. Belongs to a writer and its thread."""

    def __init__(self, partition: int, directory: Path, identity: Identity) -> None:
        self._partition = partition
        self._pending = directory / PENDING
        self._spool = self._pending / f"{identity.stem}.open"
        self._identity = identity
        self._batches: list[pa.RecordBatch] = []
        self._file: BinaryIO | None = None
        self._header = FrameHeader(0, 0, 0, 0, 0, 0, identity.producer)

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep rows in memory."""
        self._batches.append(batch)

    def spill(self) -> None:
        """Move what is in memory to the spool file, as one Arrow message."""
        if not self._batches:
            return
        merged = pa.concat_batches(self._batches)
        self._batches = []
        if self._file is None:
            self._file = open_file(self._spool, "w+b")
        message = merged.serialize()
        end = self._header.size
        self._header = self._header.extended(describe_batches([merged], [message]), message)
        write_all(self._file.fileno(), [memoryview(message)], end)

    def stage(self, epoch: Epoch) -> Committable | None:
        """Make everything added so far a durable transaction; ``None`` if there is nothing."""
        self.spill()
        if self._file is None:
            return None
        header = self._header.of_epoch(epoch)
        write_all(self._file.fileno(), [header.encode()], 0)
        os.fsync(self._file.fileno())
        name = f"{self._identity.stem}-{epoch}.frame"
        self._spool.rename(self._pending / name)
        sync_path(self._pending)
        self.abandon()
        return Committable(self._partition, name, header.producer, epoch, header.records)

    def abandon(self) -> None:
        """Forget what is not staged."""
        if self._file is not None:
            self._file.close()
            self._spool.unlink(missing_ok=True)
        self._file = None
        self._batches = []
        self._header = FrameHeader(0, 0, 0, 0, 0, 0, self._identity.producer)


def commit_staged(writer: PartitionWriter, committables: Sequence[Committable]) -> list[CommitOutcome]:
    """Append staged transactions of one partition, in order; safe to repeat at any time."""
    files = [writer.directory / PENDING / committable.file for committable in committables]
    with writer.locked():
        outcomes = [_commit(writer, c, file) for c, file in zip(committables, files, strict=True)]
        left = [file for file in files if file.exists()]
        if left:
            # Also when all were found committed: a crash may have hit between append and fsync.
            writer.sync()
    for file in left:
        file.unlink(missing_ok=True)
    return outcomes


def _commit(writer: PartitionWriter, committable: Committable, file: Path) -> CommitOutcome:
    done = writer.committed_epoch(committable.producer)
    if done is not None and done >= committable.epoch:
        return CommitOutcome.ALREADY_COMMITTED
    try:
        with file.open("rb") as staged:
            header = parse_header(staged.read(MAX_HEADER_SIZE))
    except FileNotFoundError:
        if writer.has_forgotten(committable.producer, committable.epoch):
            _log.error(_forgotten(writer, committable))
            return CommitOutcome.DROPPED
        raise ConnectorError(
            f"{committable.records} records of epoch {committable.epoch} cannot be committed: their staged "
            f"file {file} was removed and partition {writer.directory} does not have them. Restore the file, "
            "or start the job from a snapshot before that epoch to produce them again."
        ) from None
    if header is None or (header.producer, header.epoch) != (committable.producer, committable.epoch):
        raise CorruptLogError(f"staged transaction {file} is damaged: its header is not what was staged")
    writer.append_file(header, file)
    return CommitOutcome.COMMITTED


def _forgotten(writer: PartitionWriter, committable: Committable) -> str:
    return (
        f"POSSIBLE DATA LOSS: nobody can tell whether {committable.records} records of epoch "
        f"{committable.epoch} are committed: retention has deleted what was written to {writer.directory} "
        "at that time. If the job went on after the snapshot that it was started from, they were committed "
        "then, and deleted since."
    )


def remove_leftovers(directory: Path, identity: Identity, restored_epoch: Epoch | None) -> int:
    """Remove what older attempts of this sink staged in a partition and nobody will commit.

    That is every spool file, and every transaction behind the restored epoch (all, on a fresh start).
    Files of the same or a newer generation are never touched: the caller may itself be the zombie.
    """
    removed = 0
    for path in (directory / PENDING).iterdir():
        name = NAME.fullmatch(path.name)
        if name is None or name["sink"] != identity.sink_digest:
            continue
        epoch = name["epoch"]
        wanted = epoch is not None and restored_epoch is not None and int(epoch) <= restored_epoch
        if int(name["generation"]) < identity.generation and not wanted:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
