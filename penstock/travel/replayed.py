"""The ends of a replayed job: a piece of the real input, and files instead of the real output.

A record takes part if its event time is within the piece and its place is before the end.  Ends are
offsets that are found on the driver before the job starts, so that a second replay can be given the same
ones: see :class:`Piece`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from penstock.connectors.cut import ChangedSplits, CutReader, WrappedSource
from penstock.connectors.files.sink import FileSink
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.source import AtOffset, AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.connectors.watermark_strategy import WatermarkStrategy
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, Epoch

Offsets = dict[str, int]
"""By split id."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Which part of the past."""

    start_ms: int | None = None
    """Event time of the first records."""
    end_ms: int | None = None
    """Event time before which the last records are."""
    starts: Offsets | None = None
    ends: Offsets | None = None
    """Offsets; splits that are not named end where they end now."""

    def start_of(self, split_id: str) -> AtTime | AtOffset | None:
        """Where to begin to read."""
        if self.starts is not None and split_id in self.starts:
            return AtOffset(self.starts[split_id])
        return None if self.start_ms is None else AtTime(self.start_ms)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """The ``info`` of a split whose end is set; those of a restored snapshot have none yet."""

    info: Any


class ReplayedSource(WrappedSource):
    """A piece of another source. Split ids and positions are the other's."""

    def __init__(self, source: Source, strategy: WatermarkStrategy, piece: Piece) -> None:
        super().__init__(source)
        self._strategy = strategy
        self._piece = piece
        self.bounded = True
        if not source.reports_finished:
            self.discovery_interval_ms = None
        self.ends = self._find_ends()
        """Where each split ends that is known now."""

    def _find_ends(self) -> Offsets:
        given = self._piece.ends or {}
        splits = list(self.wrapped.create_enumerator(1).discover())
        named = set(self._piece.starts or ()) | set(given)
        if named and not named & {split.id for split in splits}:
            known = ", ".join(sorted(split.id for split in splits))
            raise ConfigError(f"offsets are given for {', '.join(sorted(named))}, but the splits are {known}")
        ends = {split.id: given.get(split.id, self.wrapped.end_offset(split)) for split in splits}
        return {split_id: end for split_id, end in ends.items() if end is not None}

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _ReplayedSplits(self.wrapped.create_enumerator(parallelism), self)

    def discovered(self, split: Split) -> Split:
        """A split of the other source as this one deals it."""
        bounded = self._up_to_end(split, self._piece.start_of(split.id))
        return replace(bounded, info=_Bounded(bounded.info))

    def reads_in_order(self, split: Split) -> bool:
        return self.wrapped.reads_in_order(self._original(split))

    def holds_time(self, split: Split) -> bool:
        return self.wrapped.holds_time(self._original(split))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = self.wrapped.open_split(self._original(split), position, clock)
        return CutReader(reader, self._strategy, self._piece.start_ms, self._piece.end_ms)

    def _original(self, split: Split) -> Split:
        if isinstance(split.info, _Bounded):
            return replace(split, info=split.info.info)
        return self._up_to_end(split, None)

    def _up_to_end(self, split: Split, start: AtTime | AtOffset | None) -> Split:
        end = self.ends.get(split.id)
        return self.wrapped.between(split, start, self.wrapped.end_offset(split) if end is None else end)


class _ReplayedSplits(ChangedSplits):
    def __init__(self, inner: SplitEnumerator, source: ReplayedSource) -> None:
        super().__init__(inner)
        self._source = source

    def change(self, split: Split) -> Split:
        return self._source.discovered(split)


class TimedLines:
    """A file format: a JSON line per record, with its event time and the record as text."""

    def create(self, stream: BinaryIO) -> _TimedLinesWriter:
        """A writer of one file."""
        return _TimedLinesWriter(stream)


class _TimedLinesWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, batch: Batch) -> None:
        times = [None] * len(batch) if batch.times is None else np.asarray(batch.times).tolist()
        lines = (
            json.dumps({"time": None if time == MIN_TIME else time, "record": str(record)})
            for time, record in zip(times, batch.to_rows(), strict=True)
        )
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def finish(self) -> None:
        """Nothing is left."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A committable of the replay, told from those that a snapshot of the real job holds for its sink."""

    file: Any


class ReplayedSink(Sink):
    """Takes the place of a sink and writes files; what a snapshot holds for that one is left alone."""

    def __init__(self, directory: Path) -> None:
        self._files = FileSink.for_bulk_format(directory, TimedLines()).build()

    def check(self) -> None:
        self._files.check()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Wrapping(self._files.create_writer(replace(context, restored_state=())))

    def create_committer(self) -> Committer:
        return _OwnOnly(self._files.create_committer())


class _Wrapping(SinkWriter):
    def __init__(self, writer: SinkWriter) -> None:
        self._writer = writer

    def write(self, batch: Batch) -> None:
        self._writer.write(batch)

    def flush(self, end_of_input: bool) -> None:
        self._writer.flush(end_of_input)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        return [_Written(file) for file in self._writer.prepare_commit(epoch)]

    def close(self) -> None:
        self._writer.close()


class _OwnOnly(Committer):
    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        own = [item.file for item in committables if isinstance(item, _Written)]
        outcomes = iter(self._committer.commit(own) if own else ())
        return [
            next(outcomes) if isinstance(item, _Written) else CommitOutcome.ALREADY_COMMITTED
            for item in committables
        ]

    def close(self) -> None:
        self._committer.close()
