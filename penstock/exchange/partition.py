"""Partitioners: which of the receiving subtasks a record goes to.

A :class:`Partitioning` is the frozen description on an edge of the graph; :func:`make_router` turns it
into a :class:`Router` for one sending subtask, which splits batches.  A router must neither lose nor
invent records.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, KeyError_
from penstock.core.ids import KeyGroup
from penstock.core.keygroups import (
    Hashes,
    combine_columns,
    hash_nullable,
    hash_value,
    hash_values,
    key_groups,
    owner,
)
from penstock.core.keys import NAN, canonical_keys
from penstock.core.row import field_of
from penstock.exchange.hot_groups import GroupCounts

Routed = Iterable[tuple[int, Batch]]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Base of all descriptions; ``strategy`` is the name plans show."""

    @property
    def strategy(self) -> str:
        """Flink's name of the ship strategy."""
        return type(self).__name__.upper()


@dataclass(frozen=True, slots=True)
class Forward(Partitioning):
    """To the subtask with the same index: no network, no mixing."""


@dataclass(frozen=True, slots=True)
class Rebalance(Partitioning):
    """Round robin over all."""


@dataclass(frozen=True, slots=True)
class Rescale(Partitioning):
    """Round robin over a local share of the receivers."""


@dataclass(frozen=True, slots=True)
class Shuffle(Partitioning):
    """At random over all."""


@dataclass(frozen=True, slots=True)
class Broadcast(Partitioning):
    """To everybody."""


@dataclass(frozen=True, slots=True)
class Global(Partitioning):
    """All to the first."""


@dataclass(frozen=True, slots=True)
class Hash(Partitioning):
    """By key: equal keys meet on one subtask. Attaches the keys to the batches."""

    selector: Callable[[Any], Any] | None = None
    columns: tuple[str, ...] = ()
    nulls: bool = False
    """Whether a null in the only key column is a key like any other."""


@dataclass(frozen=True, slots=True)
class Custom(Partitioning):
    """As the user's function says."""

    partition: Callable[[Any, int], int]
    selector: Callable[[Any], Any]


class Router(ABC):
    """Splits batches of one sending subtask over the receivers."""

    counts: GroupCounts | None = None
    """Which key groups it saw, if it knows them."""

    @abstractmethod
    def route(self, batch: Batch) -> Routed:
        """Pairs of receiver and its share of the batch; shares may be the batch itself."""


class _ToOne(Router):
    def __init__(self, target: int) -> None:
        self._target = target

    def route(self, batch: Batch) -> Routed:
        return ((self._target, batch),)


class ToAll(Router):
    """Every batch to every receiver."""

    def __init__(self, receivers: int) -> None:
        self._all = range(receivers)

    def route(self, batch: Batch) -> Routed:
        return [(target, batch) for target in self._all]


class _RoundRobin(Router):
    """Deals records one by one for row order fairness, by strided slices so it stays cheap."""

    def __init__(self, targets: list[int], start: int) -> None:
        self._targets = targets
        self._next = start % len(targets)

    def route(self, batch: Batch) -> Routed:
        count = len(self._targets)
        if count == 1:
            return ((self._targets[0], batch),)
        size = len(batch)
        shares = []
        for offset in range(min(count, size)):
            target = self._targets[(self._next + offset) % count]
            shares.append((target, batch.take(np.arange(offset, size, count))))
        self._next = (self._next + size) % count
        return shares


class _ByIndex(Router):
    """Shares given by an array of receiver numbers, one per record."""

    def __init__(self, receivers: int) -> None:
        self._receivers = receivers

    def split(self, batch: Batch, owners: np.ndarray[Any, np.dtype[np.int64]]) -> Routed:
        if self._receivers == 1:
            return ((0, batch),)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(self._receivers + 1))
        shares = []
        for target in range(self._receivers):
            low, high = int(bounds[target]), int(bounds[target + 1])
            if high - low == len(batch):
                return ((target, batch),)
            if low < high:
                shares.append((target, batch.take(order[low:high])))
        return shares


class _Random(_ByIndex):
    def __init__(self, receivers: int, seed: int) -> None:
        super().__init__(receivers)
        self._random = np.random.default_rng(seed)

    def route(self, batch: Batch) -> Routed:
        return self.split(batch, self._random.integers(0, self._receivers, len(batch)))


class _ByKey(_ByIndex):
    def __init__(
        self, spec: Hash, receivers: int, max_parallelism: int, on_nan: Callable[[], None] | None
    ) -> None:
        super().__init__(receivers)
        self._spec = spec
        self._max = max_parallelism
        self._on_nan = on_nan
        self.counts = self._seen = GroupCounts(max_parallelism)

    def route(self, batch: Batch) -> Routed:
        keyed, kinds = _keyed(batch, self._spec)
        if self._on_nan is not None and _has_nan(keyed, kinds):
            self._on_nan()
            self._on_nan = None
        if self._receivers == 1:
            return ((0, keyed),)
        if keyed.keys is not None and len(keyed) == 1:  # arrays would cost it more than all the rest
            group = KeyGroup(hash_value(keyed.keys[0]) % self._max)
            self._seen.saw_one(group)
            return ((owner(group, self._receivers, self._max), keyed),)
        groups = key_groups(key_hashes(keyed, kinds), self._max)
        self._seen.saw(groups)
        return self.split(keyed, owner(groups, self._receivers, self._max))


class _ByFunction(_ByIndex):
    def __init__(self, spec: Custom, receivers: int) -> None:
        super().__init__(receivers)
        self._spec = spec

    def route(self, batch: Batch) -> Routed:
        partition, selector, count = self._spec.partition, self._spec.selector, self._receivers
        targets = [partition(selector(row), count) for row in batch.to_rows()]
        for target in targets:
            if not isinstance(target, int) or not 0 <= target < count:
                raise ConfigError(
                    f"the custom partitioner returned {target!r}; it must return a whole number "
                    f"from 0 to {count - 1}"
                )
        return self.split(batch, np.array(targets, np.int64))


def attach_keys(batch: Batch, spec: Hash) -> Batch:
    """The batch with the key of each record beside it; refuses what cannot be a key."""
    return _keyed(batch, spec)[0]


def _keyed(batch: Batch, spec: Hash) -> tuple[Batch, set[type] | None]:
    """The same, and the types of the keys if they are known."""
    if batch.columns is not None and spec.columns:
        missing = [name for name in spec.columns if name not in batch.columns.schema.names]
        if missing:
            raise ConfigError(
                f"key_by names the column {missing[0]!r}, which the stream does not have; "
                f"its columns: {', '.join(batch.columns.schema.names)}"
            )
        keyed = Batch(columns=batch.columns, times=batch.times, key_columns=spec.columns)
        if not spec.nulls:
            _refuse_null(keyed)
        return keyed, None
    rows = batch.to_rows()
    selector = spec.selector or field_selector(spec.columns)
    found = list(map(selector, rows))
    kinds = set(map(type, found))
    keys = canonical_keys(found, kinds)
    return Batch(rows=rows, times=batch.times, keys=keys), kinds if keys is found else None


def _has_nan(batch: Batch, kinds: set[type] | None) -> bool:
    """Whether a key is NaN. Keys of which the types are known are as they were found: none is the one NaN."""
    if batch.keys is not None:
        return kinds is None and NAN in batch.keys
    columns = [batch.columns.column(name) for name in batch.key_columns]
    floating = [column for column in columns if pa.types.is_floating(column.type)]
    return any(pc.any(pc.is_nan(column)).as_py() for column in floating)


def key_hashes(batch: Batch, kinds: set[type] | None = None) -> Hashes:
    """The hash of each record's key; the batch carries keys. ``kinds``: their types, if known."""
    if batch.keys is not None:
        return hash_values(batch.keys, kinds)
    arrays = [batch.columns.column(name) for name in batch.key_columns]
    return hash_nullable(arrays[0]) if len(arrays) == 1 else combine_columns(arrays)


def _refuse_null(batch: Batch) -> None:
    """Refuse a null as a key in columns; keys of rows are looked at when they are attached."""
    columns = batch.key_columns
    if len(columns) == 1 and batch.columns.column(columns[0]).null_count:
        raise KeyError_(
            "a key is null; filter such records out or give them a key before key_by", code=Code.KEY_NULL
        )


def field_selector(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Selector of named fields for rows that are ``Row``, dict or have attributes."""
    if len(names) == 1:
        only = names[0]
        return lambda row: field_of(row, only)
    return lambda row: tuple(field_of(row, name) for name in names)


def rescale_targets(sender: int, senders: int, receivers: int) -> list[int]:
    """The receivers that sender ``sender`` feeds under Rescale; together they cover all."""
    if senders >= receivers:
        return [sender * receivers // senders]
    low = -(-sender * receivers // senders)
    high = -(-(sender + 1) * receivers // senders)
    return list(range(low, high))


def reaches_all(spec: Partitioning) -> bool:
    """Whether every sender has a channel to every receiver."""
    return not isinstance(spec, Forward | Rescale)


def channel_targets(spec: Partitioning, sender: int, senders: int, receivers: int) -> Sequence[int]:
    """Receivers that have a channel from ``sender``.

    Signals go to all of them, so also Global has a channel to everybody: only its data does not.
    """
    if isinstance(spec, Forward):
        return [sender]
    if isinstance(spec, Rescale):
        return rescale_targets(sender, senders, receivers)
    return range(receivers)


def make_router(
    spec: Partitioning,
    sender: int,
    senders: int,
    receivers: int,
    max_parallelism: int,
    on_nan: Callable[[], None] | None = None,
) -> Router:
    """The router of sending subtask ``sender``. ``on_nan`` is called once, if a key is NaN."""
    if isinstance(spec, Forward):
        return _ToOne(sender)
    if isinstance(spec, Global):
        return _ToOne(0)
    if isinstance(spec, Broadcast):
        return ToAll(receivers)
    if isinstance(spec, Rebalance):
        return _RoundRobin(list(range(receivers)), sender)
    if isinstance(spec, Rescale):
        return _RoundRobin(rescale_targets(sender, senders, receivers), 0)
    if isinstance(spec, Shuffle):
        return _Random(receivers, random.Random(sender).randrange(2**32))
    if isinstance(spec, Hash):
        return _ByKey(spec, receivers, max_parallelism, on_nan)
    if isinstance(spec, Custom):
        return _ByFunction(spec, receivers)
    raise ConfigError(f"unknown partitioning {spec!r}")
