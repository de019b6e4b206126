"""State whose entries expire: the handles chosen when a descriptor has a time to live.

What a table holds is stamped with the time it was last written (or read, if so configured): a value is
stored as ``(value, time)``, a list as a list of such pairs, a map as a dict of key to pair.  So elements of
a list and entries of a map expire each on their own.

An entry has expired once ``time + ttl <= now``.  It then goes away when it is read, when a sweep comes
across it, and when a snapshot is written, if those ways of cleaning up are on.  Entries stamped
:data:`UNTIMED` were written before event time was known; they get their time when they are next looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.core.durations import to_millis
from penstock.core.ids import MIN_TIME
from penstock.state.backend import Table
from penstock.state.handles import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    Scope,
    State,
    ValueState,
)
from penstock.state.schema import StateKind
from penstock.state.ttl_config import StateTtlConfig

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")

UNTIMED: int = MIN_TIME
_ROUNDS_PER_LIFE = 16

Pair = tuple[Any, int]


def _prune_pair(pair: Pair, limit: int) -> Pair | None:
    return None if UNTIMED < pair[1] <= limit else pair


def _prune_list(pairs: list[Pair], limit: int) -> list[Pair] | None:
    kept = [pair for pair in pairs if not UNTIMED < pair[1] <= limit]
    return pairs if len(kept) == len(pairs) else kept or None


def _prune_map(pairs: dict[Any, Pair], limit: int) -> dict[Any, Pair] | None:
    kept = {key: pair for key, pair in pairs.items() if not UNTIMED < pair[1] <= limit}
    return pairs if len(kept) == len(pairs) else kept or None


_PRUNE: dict[StateKind, Callable[[Any, int], Any]] = {
    StateKind.LIST: _prune_list,
    StateKind.MAP: _prune_map,
}


class Lifetime:
    """How entries of one table live and die. Made once per state, shared by its handles."""

    __slots__ = (
        "_batch",
        "_due",
        "_in_snapshots",
        "_next",
        "_prune",
        "_queue",
        "_table",
        "now",
        "on_read",
        "shows_expired",
        "ttl",
    )

    def __init__(
        self,
        config: StateTtlConfig,
        kind: StateKind,
        table: Table,
        clock: Callable[[], int],
    ) -> None:
        self.ttl = to_millis(config.get_ttl())
        self.on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.shows_expired = (
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self.now = clock
        self._table = table
        self._prune = _PRUNE.get(kind, _prune_pair)
        self._queue: list[Any] = []
        cleanup = config.get_cleanup_strategies()
        self._in_snapshots = cleanup.in_full_snapshot()
        strategy = cleanup.get_incremental_cleanup_strategy()
        # Tables that are not in memory drop what has expired on reading and in snapshots.
        self._batch = strategy.get_cleanup_size() if strategy and table.scans_cheaply else 0
        self._next = clock() + max(1, self.ttl // _ROUNDS_PER_LIFE)
        self._due: float = self._next if self._batch > 0 else math.inf

    def prune(self, value: Any, now: int) -> Any:
        """What is alive in a stored value, which is not changed: itself if all is, ``None`` if nothing."""
        return self._prune(value, now - self.ttl)

    def trimmer(self) -> Callable[[Any], Any] | None:
        """What a snapshot taken now keeps of stored values; ``None`` if all of everything."""
        now = self.now()
        return (lambda value: self.prune(value, now)) if self._in_snapshots else None

    def refreshes(self, time: int, now: int) -> bool:
        """Whether reading an entry of that time stamps it anew."""
        return self.on_read or (time == UNTIMED and now != UNTIMED)

    def replace(self, entry: Any, kept: Any) -> None:
        """Store what is left of a container, without sharing anything with a frozen layer."""
        if kept is None:
            self._table.remove(entry)
            return
        container = self._table.own(entry)
        container.clear()
        if isinstance(container, dict):
            container.update(kept)
        else:
            container.extend(kept)

    def touch(self) -> int:
        """The time; called once on each access, and sweeps a little if a sweep is under way or due."""
        now = self.now()
        if now >= self._due:
            self._sweep(now)
        return now

    def _sweep(self, now: int) -> None:
        """Look at the next few entries and drop what has expired.

        A round over all entries begins at most 16 times per time to live, since it copies their list.
        """
        queue = self._queue
        if not queue:
            queue = self._queue = self._table.entries()
            self._next = now + max(1, self.ttl // _ROUNDS_PER_LIFE)
        for _ in range(min(self._batch, len(queue))):
            entry = queue.pop()
            value = self._table.peek(entry)
            if value is not None:
                kept = self.prune(value, now)
                if kept is not value:
                    self.replace(entry, kept)
        self._due = MIN_TIME if queue else self._next

    def load(self, entry: Any, now: int) -> Any:
        """The value of an entry that holds one pair, if it may be seen; an expired one is dropped."""
        found = self._table.get(entry)
        if found is None:
            return None
        value, time = found
        if UNTIMED < time <= now - self.ttl:
            self._table.remove(entry)
            return value if self.shows_expired else None
        if self.on_read or (time == UNTIMED and now != UNTIMED):
            self._table.put(entry, (value, now))
        return value

    def join(self, entry: Any, pair: Pair, merge: Callable[[Any, Any], Any]) -> None:
        """Add a stored pair to an entry, as merging windows do."""
        value, time = pair
        now = self.touch()
        if UNTIMED < time <= now - self.ttl and not self.shows_expired:
            return
        found = self.load(entry, now)
        self._table.put(entry, pair if found is None else (merge(found, value), now))


class _Expiring(State):
    """A handle whose entries expire as its ``Lifetime`` says."""

    def __init__(self, table: Table, scope: Scope, *more: Any, life: Lifetime) -> None:
        super().__init__(table, scope, *more)
        self._life = life


class TtlValueState(_Expiring, ValueState[T]):
    """A value that expires."""

    def value(self) -> T | None:
        life = self._life
        return life.load(self._entry(), life.touch())  # type: ignore[no-any-return]

    def update(self, value: T | None) -> None:
        now = self._life.touch()
        if value is None:
            self._table.remove(self._entry())
        else:
            self._table.put(self._entry(), (value, now))


class TtlReducingState(_Expiring, ReducingState[T]):
    """A reduction that expires as a whole; each value added starts its clock again."""

    def get(self) -> T | None:
        life = self._life
        return life.load(self._entry(), life.touch())  # type: ignore[no-any-return]

    def add(self, value: T) -> None:
        entry, now = self._entry(), self._life.touch()
        found = self._life.load(entry, now)
        self._table.put(entry, (value if found is None else self._reduce(found, value), now))

    def _join(self, entry: Any, value: Any) -> None:
        self._life.join(entry, value, self._reduce)


class TtlAggregatingState(_Expiring, AggregatingState[IN, OUT]):
    """An accumulator that expires as a whole; each value added starts its clock again."""

    def get(self) -> OUT | None:
        life = self._life
        found = life.load(self._entry(), life.touch())
        return None if found is None else self._function.get_result(found)

    def add(self, value: IN) -> None:
        entry, now = self._entry(), self._life.touch()
        found = self._life.load(entry, now)
        if found is None:
            found = self._function.create_accumulator()
        self._table.put(entry, (self._function.add(value, found), now))

    def _join(self, entry: Any, value: Any) -> None:
        self._life.join(entry, value, self._function.merge)


class TtlListState(_Expiring, ListState[T]):
    """A list whose elements expire one by one."""

    def get(self) -> Iterable[T]:
        life, entry = self._life, self._entry()
        now = life.touch()
        found = self._table.get(entry)
        if found is None:
            return []
        kept = life.prune(found, now)
        seen = [value for value, _ in (found if life.shows_expired else kept or ())]
        if kept is not None and any(life.refreshes(time, now) for _, time in kept):
            kept = [(value, now if life.refreshes(time, now) else time) for value, time in kept]
        if kept is not found:
            life.replace(entry, kept)
        return seen

    def add(self, value: T) -> None:
        if value is None:
            raise ValueError("None cannot be added to a list state")
        super().add((value, self._life.touch()))  # type: ignore[arg-type]

    def update(self, values: Iterable[T]) -> None:
        now = self._life.touch()
        super().update([(value, now) for value in values])  # type: ignore[misc]


class TtlMapState(_Expiring, MapState[K, V]):
    """A map whose entries expire one by one."""

    def _look(self, key: K) -> Pair | None:
        life, entry = self._life, self._entry()
        now = life.touch()
        found = self._table.peek(entry)
        pair: Pair | None = None if found is None else found.get(key)
        if pair is None:
            return None
        if UNTIMED < pair[1] <= now - life.ttl:
            self.remove(key)
            return pair if life.shows_expired else None
        if life.refreshes(pair[1], now):
            super().put(key, (pair[0], now))  # type: ignore[arg-type]
        return pair

    def get(self, key: K) -> V | None:
        pair = self._look(key)
        return None if pair is None else self._table.guard(pair[0])

    def put(self, key: K, value: V) -> None:
        super().put(key, (value, self._life.touch()))  # type: ignore[arg-type]

    def contains(self, key: K) -> bool:
        return self._look(key) is not None

    def keys(self) -> Iterable[K]:
        return list(self._view())

    def is_empty(self) -> bool:
        return not self._view()

    def _view(self) -> dict[K, V]:
        life, entry = self._life, self._entry()
        now = life.touch()
        found = self._table.get(entry)
        if found is None:
            return {}
        kept = life.prune(found, now)
        seen = {key: pair[0] for key, pair in (found if life.shows_expired else kept or {}).items()}
        if kept is not None and any(life.refreshes(time, now) for _, time in kept.values()):
            kept = {
                key: (value, now if life.refreshes(time, now) else time)
                for key, (value, time) in kept.items()
            }
        if kept is not found:
            life.replace(entry, kept)
        return seen
