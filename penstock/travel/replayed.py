"""The ends of a replayed job: a piece of the real input, and files instead of the real output.

A record takes part if its event time is within the piece and its place is before the end.  Ends are
offsets that are found on the driver before the job starts, so that a second replay can be given the same
ones: see :class:`Piece`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from penstock.connectors.files.sink import FileSink
from penstock.connectors.on_error import Diverted
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.source import AtOffset, AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.connectors.watermark_strategy import WatermarkStrategy
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, Epoch
from penstock.operators.timestamps import stamp

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


class ReplayedSource(Source):
    """A piece of another source. Split ids and positions are the other's."""

    def __init__(self, source: Source, strategy: WatermarkStrategy, piece: Piece) -> None:
        self._source = source
        self._strategy = strategy
        self._piece = piece
        self.read_in_order = source.read_in_order
        self.reports_finished = source.reports_finished
        self.discovery_interval_ms = source.discovery_interval_ms if source.reports_finished else None
        self.diverts_to = source.diverts_to
        self.ends = self._find_ends()
        """Where each split ends that is known now."""

    def _find_ends(self) -> Offsets:
        given = self._piece.ends or {}
        splits = list(self._source.create_enumerator(1).discover())
        named = set(self._piece.starts or ()) | set(given)
        if named and not named & {split.id for split in splits}:
            known = ", ".join(sorted(split.id for split in splits))
            raise ConfigError(f"offsets are given for {', '.join(sorted(named))}, but the splits are {known}")
        ends = {split.id: given.get(split.id, self._source.end_offset(split)) for split in splits}
        return {split_id: end for split_id, end in ends.items() if end is not None}

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _ReplayedSplits(self._source.create_enumerator(parallelism), self)

    def bounded_split(self, split: Split, start: AtTime | AtOffset | None) -> Split:
        """The split up to its end."""
        end = self.ends.get(split.id)
        return self._source.between(split, start, self._source.end_offset(split) if end is None else end)

    def discovered(self, split: Split) -> Split:
        """A split of the other source as this one deals it."""
        bounded = self.bounded_split(split, self._piece.start_of(split.id))
        return replace(bounded, info=_Bounded(bounded.info))

    def reads_in_order(self, split: Split) -> bool:
        return self._source.reads_in_order(self._original(split))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = self._source.open_split(self._original(split), position, clock)
        return _CutReader(reader, self._strategy, self._piece)

    def _original(self, split: Split) -> Split:
        if isinstance(split.info, _Bounded):
            return replace(split, info=split.info.info)
        return self.bounded_split(split, None)

    def produced_type(self) -> Any | None:
        return self._source.produced_type()


class _ReplayedSplits(SplitEnumerator):
    """The other enumerator, so that a snapshot of the real job fits."""

    def __init__(self, inner: SplitEnumerator, source: ReplayedSource) -> None:
        self._inner = inner
        self._source = source

    def discover(self) -> Iterable[Split]:
        return [self._source.discovered(split) for split in self._inner.discover()]

    def is_exhausted(self) -> bool:
        return self._inner.is_exhausted()

    def on_finished(self, split_ids: Iterable[str]) -> None:
        self._inner.on_finished(split_ids)

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    def restore(self, state: Any) -> None:
        self._inner.restore(state)


class _CutReader(SplitReader):
    """Leaves out records whose event times are not within the piece."""

    def __init__(self, reader: SplitReader, strategy: WatermarkStrategy, piece: Piece) -> None:
        self._reader = reader
        self._strategy = strategy
        self._start = MIN_TIME if piece.start_ms is None else piece.start_ms
        self._end = piece.end_ms

    def poll(self, max_rows: int) -> Batch | None:
        batch = self._reader.poll(max_rows)
        times = None if batch is None else stamp(batch, self._strategy).times
        if batch is None or times is None:
            return batch
        known = np.asarray(times)
        inside = (known >= self._start) | (known == MIN_TIME)
        if self._end is not None:
            inside &= known < self._end
        return batch if inside.all() else batch.take(np.flatnonzero(inside))

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()

    def take_diverted(self) -> list[Diverted]:
        return self._reader.take_diverted()

    def close(self) -> None:
        self._reader.close()


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
