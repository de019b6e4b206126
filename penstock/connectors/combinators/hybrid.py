"""Several sources read one after the other: history first, then the live stream.

The next source starts when every split of the one before has been read to its end, in all subtasks.
The readers say so themselves (:class:`~penstock.connectors.source.SplitsFinished`), and say it again
after a restore, so the switch needs no state but which source is being read: a failure at any moment of
it leads either to the old source, all of whose splits are done, or to the new one.

Splits and enumerator of the last source are stored as it would store them by itself: once it is reached,
a program that reads only this one can go on from a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.connectors.source import (
    AtOffset,
    AtTime,
    BetweenSources,
    Source,
    Split,
    SplitEnumerator,
    SplitReader,
)
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.packed import Names, PackedNames

_LOOK_MS = 200


class HybridSource(Source):
    """Reads ``sources`` in turn. All but the last must be bounded; all must give the same kind of record."""

    reports_finished = True

    def __init__(self, sources: Sequence[Source]) -> None:
        for number, source in enumerate(sources[:-1]):
            if not source.bounded:
                raise ConfigError(
                    f"source {number + 1} of {len(sources)} of a HybridSource never ends, so those behind it "
                    "would never be read; only the last may be unbounded"
                )
        if any(source.reports_finished for source in sources):
            raise ConfigError(
                "a HybridSource cannot be one of the sources of another, or of a backfill; give the sources "
                "that it is made of one by one"
            )
        tags = {source.diverts_to for source in sources}
        if len(tags) > 1:
            raise ConfigError("the sources of a HybridSource must divert bad records to the same side output")
        self._sources = tuple(sources)
        self.bounded = sources[-1].bounded
        self.discovery_interval_ms = _LOOK_MS
        self.diverts_to = tags.pop()

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """A builder; ``add_source`` appends."""
        return HybridSourceBuilder(first_source)

    def with_each(self, change: Callable[[Source], Source]) -> HybridSource:
        """The same with each of its sources changed; they must keep their splits' ids and positions."""
        return HybridSource([change(source) for source in self._sources])

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _HybridEnumerator(self._sources, parallelism)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        source, inner = self._inside(split)
        return source.open_split(inner, position, clock)

    def reads_in_order(self, split: Split) -> bool:
        source, inner = self._inside(split)
        return source.reads_in_order(inner)

    def awaits_end(self, split: Split) -> bool:
        return isinstance(split.info, _Earlier)

    def holds_time(self, split: Split) -> bool:
        source, inner = self._inside(split)
        return source.holds_time(inner)

    def check(self) -> None:
        for source in self._sources:
            source.check()

    def from_end(self, split: Split) -> Split:
        source, inner = self._inside(split)
        return _rewrapped(split, source.from_end(inner))

    def end_offset(self, split: Split) -> int | None:
        source, inner = self._inside(split)
        return source.end_offset(inner)

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        source, inner = self._inside(split)
        return _rewrapped(split, source.between(inner, start, end))

    def _inside(self, split: Split) -> tuple[Source, Split]:
        if isinstance(split.info, _Earlier):
            return self._sources[split.info.number], split.info.split
        return self._sources[-1], split

    def produced_type(self) -> Any | None:
        return self._sources[0].produced_type()


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The ``info`` of a split of any source but the last."""

    number: int
    split: Split


@dataclass(frozen=True, slots=True)
class _Before(BetweenSources):
    """State of the enumerator while an earlier source is read; of the last one it is that source's own."""

    number: int
    dealt: PackedNames | tuple[str, ...]
    """Older snapshots have the names as they are."""
    inner_done: bool
    inner: Any


def _rewrapped(split: Split, inner: Split) -> Split:
    return (
        replace(split, info=replace(split.info, split=inner)) if isinstance(split.info, _Earlier) else inner
    )


class HybridSourceBuilder:
    """Collects the sources of a :class:`HybridSource`."""

    def __init__(self, first_source: Source) -> None:
        self._sources = [first_source]

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """``source`` is read when the one before it has ended."""
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """The source."""
        return HybridSource(self._sources)


class _HybridEnumerator(SplitEnumerator):
    """Finds splits of the current source; goes to the next when all of them are finished."""

    def __init__(self, sources: Sequence[Source], parallelism: int) -> None:
        self._sources = sources
        self._parallelism = parallelism
        self._enter(0)

    def discover(self) -> Iterable[Split]:
        found = self._look()
        while not found and self._may_switch():
            self._enter(self._number + 1)
            found = self._look()
        return found

    def is_exhausted(self) -> bool:
        return self._is_last and self._inner_done

    def expects_splits(self) -> bool:
        """Between two sources nobody is idle: whoever gets his splits first would leave the others behind."""
        return not self._is_last or self._inner.expects_splits()

    def on_finished(self, split_ids: Iterable[str]) -> None:
        self._finished.update(split_ids)

    def snapshot(self) -> Any:
        inner = self._inner.snapshot()
        if self._is_last:
            return inner
        return _Before(self._number, self._dealt.packed(), self._inner_done, inner)

    def restore(self, state: Any) -> None:
        if not isinstance(state, _Before):
            self._enter(len(self._sources) - 1)
            self._inner.restore(state)
            return
        self._enter(state.number)
        self._dealt, self._inner_done = Names.restored(state.dealt), state.inner_done
        self._inner.restore(state.inner)

    @property
    def _is_last(self) -> bool:
        return self._number == len(self._sources) - 1

    def _enter(self, number: int) -> None:
        self._number = number
        self._inner = self._sources[number].create_enumerator(self._parallelism)
        self._dealt = Names()
        self._finished: set[str] = set()
        self._inner_done = False
        self._calls = 0

    def _look(self) -> list[Split]:
        """New splits of the current source, asked no more often than it wants to be."""
        interval = self._sources[self._number].discovery_interval_ms
        turn = self._calls % max(1, (interval or 0) // _LOOK_MS)
        self._calls += 1
        if self._inner_done or turn:
            return []
        found = [self._named(split) for split in self._inner.discover()]
        self._inner_done = interval is None or self._inner.is_exhausted()
        return found if self._is_last else [split for split in found if self._dealt.add(split.id)]

    def _named(self, split: Split) -> Split:
        number = self._number
        return split if self._is_last else Split(f"{number}/{split.id}", _Earlier(number, split))

    def _may_switch(self) -> bool:
        return not self._is_last and self._inner_done and self._finished.issuperset(self._dealt)
