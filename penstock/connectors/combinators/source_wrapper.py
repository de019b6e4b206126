"""Other people's sources with something about them changed: the parts that change nothing.

Whoever changes something derives from one of these and overrides just that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.connectors.source import AtOffset, AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.formats.bad_records import Diverted


class WrappedSource(Source):
    """Another source with something about it changed; splits, positions and snapshots are the other's."""

    def __init__(self, source: Source) -> None:
        self.wrapped = source
        self.bounded = source.bounded
        self.read_in_order = source.read_in_order
        self.ids_last = source.ids_last
        self.reports_finished = source.reports_finished
        self.discovery_interval_ms = source.discovery_interval_ms
        self.diverts_to = source.diverts_to

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return self.wrapped.create_enumerator(parallelism)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return self.wrapped.open_split(split, position, clock)

    def reads_in_order(self, split: Split) -> bool:
        return self.wrapped.reads_in_order(split)

    def awaits_end(self, split: Split) -> bool:
        return self.wrapped.awaits_end(split)

    def holds_time(self, split: Split) -> bool:
        return self.wrapped.holds_time(split)

    def check(self) -> None:
        self.wrapped.check()

    def from_end(self, split: Split) -> Split:
        return self.wrapped.from_end(split)

    def end_offset(self, split: Split) -> int | None:
        return self.wrapped.end_offset(split)

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        return self.wrapped.between(split, start, end)

    def produced_type(self) -> Any | None:
        return self.wrapped.produced_type()


class ChangedSplits(SplitEnumerator):
    """Another enumerator whose splits are changed before they are dealt."""

    def __init__(self, inner: SplitEnumerator) -> None:
        self._inner = inner

    def change(self, split: Split) -> Split:
        """What is dealt in place of ``split``."""
        return split

    def discover(self) -> Iterable[Split]:
        return [self.change(split) for split in self._inner.discover()]

    def is_exhausted(self) -> bool:
        return self._inner.is_exhausted()

    def expects_splits(self) -> bool:
        return self._inner.expects_splits()

    def on_finished(self, split_ids: Iterable[str]) -> None:
        self._inner.on_finished(split_ids)

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    def restore(self, state: Any) -> None:
        self._inner.restore(state)


class WrappedReader(SplitReader):
    """Another reader, as it is."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    def poll(self, max_rows: int) -> Batch | None:
        return self._reader.poll(max_rows)

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()

    def take_diverted(self) -> list[Diverted]:
        return self._reader.take_diverted()

    def on_checkpoint_complete(self, position: Any) -> None:
        self._reader.on_checkpoint_complete(position)

    def close(self) -> None:
        self._reader.close()
