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

from penstock.connectors.combinators.source_wrapper import ChangedSplits, CutReader, WrappedSource
from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.sink import FileSink
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.source import AtOffset, AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, Epoch
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import Node
from penstock.replay.substitute import part_by_part, refuse_stamped_later

Offsets = dict[str, int]
"""By split id."""
Ends = dict[str, int | None]
"""By split id; ``None`` for one that ends by itself."""


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
    from_first: bool = False
    """Whether to begin with the first records that are there, and not where the program would."""
    only: frozenset[str] | None = None
    """The splits that there were at an earlier replay; others have come since."""

    def takes(self, split: Split) -> bool:
        """Whether a split takes part."""
        return self.only is None or split.id in self.only

    def start_of(self, split_id: str) -> AtTime | AtOffset | None:
        """Where to begin to read."""
        if self.starts is not None and split_id in self.starts:
            return AtOffset(self.starts[split_id])
        if self.start_ms is None:
            return AtTime(MIN_TIME) if self.from_first else None
        return AtTime(self.start_ms)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """The ``info`` of a split whose end is set; those of a restored snapshot have none yet."""

    info: Any


class ReplayedSource(WrappedSource):
    """A piece of another source, made by :func:`replayed`. Split ids and positions are the other's."""

    def __init__(self, source: Source, strategy: WatermarkStrategy, piece: Piece) -> None:
        super().__init__(source)
        self._strategy = strategy
        if not source.ids_last:
            piece = replace(piece, only=None)
        found = list(source.create_enumerator(1).discover())
        self.is_known = piece.only is None or any(map(piece.takes, found)) or not found
        """Whether there is anything of what an earlier replay read."""
        if all(map(piece.takes, found)):
            # Nothing has come since. At another parallelism the same input may be divided otherwise.
            piece = replace(piece, only=None)
        self._piece = piece
        self.bounded = True
        self.discovery_interval_ms = None
        splits = [split for split in found if piece.takes(split)]
        given = piece.ends or {}
        self.ends: Ends = {
            split.id: given[split.id] if split.id in given else source.end_offset(split) for split in splits
        }
        """Where each split ends; one that appears before the job has started is added on the driver."""

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _ReplayedSplits(self.wrapped.create_enumerator(parallelism), self)

    def discovered(self, splits: Iterable[Split]) -> list[Split]:
        """Splits of the other source as this one deals them."""
        return [self._dealt(split) for split in splits if self._piece.takes(split)]

    def _dealt(self, split: Split) -> Split:
        end = self.ends[split.id] = self._end_of(split)
        bounded = self.wrapped.between(split, self._piece.start_of(split.id), end)
        return replace(bounded, info=_Bounded(bounded.info))

    def from_end(self, split: Split) -> Split:
        """As it is: a replay that starts again reads its piece again."""
        return split

    def reads_in_order(self, split: Split) -> bool:
        return self.wrapped.reads_in_order(_original(split))

    def awaits_end(self, split: Split) -> bool:
        return self.wrapped.awaits_end(_original(split))

    def holds_time(self, split: Split) -> bool:
        return self.wrapped.holds_time(_original(split))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        original = _original(split)
        if not isinstance(split.info, _Bounded):
            original = self.wrapped.between(split, None, self._end_of(split))
        reader = self.wrapped.open_split(original, position, clock)
        return _ReplayedReader(reader, self._strategy, self._piece.start_ms, self._piece.end_ms)

    def _end_of(self, split: Split) -> int | None:
        return self.ends[split.id] if split.id in self.ends else self.wrapped.end_offset(split)


def replayed(
    source: Source, strategy: WatermarkStrategy, piece: Piece, alone: bool = True
) -> tuple[Source, tuple[ReplayedSource, ...]]:
    """A piece of ``source``, and what it is made of: one part, or as many as it reads one after the other.

    ``alone``: offsets must be of its splits, not of those of other sources.
    """
    parts: list[ReplayedSource] = []

    def cut(part: Source) -> Source:
        parts.append(ReplayedSource(part, strategy, piece))
        return parts[-1]

    made = part_by_part(source, cut)
    if piece.only and not any(part.is_known for part in parts):
        raise ConfigError(
            "the input is not divided as it was at the earlier replay, so what it read then cannot be found "
            "again; give --until, which says where to end, or make that replay again"
        )
    if alone:
        refuse_unknown_splits(piece, parts)
    return made, tuple(parts)


def refuse_uncut(nodes: Sequence[Node], piece: Piece, parts: Iterable[ReplayedSource]) -> None:
    """Refuse a job of which the piece cannot be cut out; ``parts`` are those of all its sources."""
    if piece.start_ms is not None or piece.end_ms is not None:
        for node in nodes:
            if node.source is not None:
                refuse_stamped_later(nodes, node)
    refuse_unknown_splits(piece, parts)


def refuse_unknown_splits(piece: Piece, parts: Iterable[ReplayedSource]) -> None:
    """Offsets of splits that no source has were not meant so."""
    known = {split_id for part in parts for split_id in part.ends}
    unknown = (set(piece.starts or ()) | set(piece.ends or ())) - known
    if unknown:
        raise ConfigError(
            f"offsets are given for {', '.join(sorted(unknown))}, but the splits are "
            f"{', '.join(sorted(known))}"
        )


def _original(split: Split) -> Split:
    return replace(split, info=split.info.info) if isinstance(split.info, _Bounded) else split


class _ReplayedReader(CutReader):
    def on_checkpoint_complete(self, position: Any) -> None:
        """Told to nobody: the real job has its own progress, as committed offsets of a Kafka group."""


class _ReplayedSplits(ChangedSplits):
    def __init__(self, inner: SplitEnumerator, source: ReplayedSource) -> None:
        super().__init__(inner)
        self._source = source

    def discover(self) -> Iterable[Split]:
        return self._source.discovered(super().discover())


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
        files = FileSink.for_bulk_format(directory, TimedLines())
        self._files = files.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()

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
