"""What the tests of time to live share: states on both backends, and their snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import ManualClock
from penstock.datastream.state import StateTtlConfig
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings

GROUPS = 16
TTL = 100


class Backends:
    """Makes the states of a test: on the heap, or in RocksDB behind a cache that is always too small."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._made: list[KeyedState] = []

    def make(self) -> KeyedState:
        """An empty one."""
        if self._directory is None:
            return heap_state()
        settings = RocksSettings(str(self._directory), memory_bytes=4 << 20, cache_entries=4)
        self._made.append(KeyedState(RocksBackend(settings, GROUPS)))
        return self._made[-1]

    def close(self) -> None:
        """Close all."""
        for state in self._made:
            state.close()
        self._made = []


backends = Backends(None)


@pytest.fixture(params=["heap", "rocks"], autouse=True)
def _backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    global backends
    backends = Backends(None if request.param == "heap" else tmp_path)
    yield
    backends.close()


class Total:
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        return left + right


def config(*calls: str, **with_arguments: tuple[Any, ...]) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(TTL)
    for call in calls:
        getattr(builder, call)()
    for call, arguments in with_arguments.items():
        getattr(builder, call)(*arguments)
    return builder.build()


def timed(descriptor: StateDescriptor, ttl: StateTtlConfig | None = None) -> Any:
    descriptor.enable_time_to_live(ttl or config())
    return descriptor


def descriptors(ttl: StateTtlConfig) -> list[StateDescriptor]:
    return [
        timed(ValueStateDescriptor("value"), ttl),
        timed(ListStateDescriptor("list"), ttl),
        timed(MapStateDescriptor("map"), ttl),
        timed(ReducingStateDescriptor("reducing", lambda a, b: a + b), ttl),
        timed(AggregatingStateDescriptor("aggregating", Total()), ttl),
    ]


def new_state(clock: ManualClock | None = None) -> tuple[KeyedState, ManualClock]:
    keyed = backends.make()
    keyed.clock = clock = clock or ManualClock(1000)
    keyed.scope.key = "k"
    return keyed, clock


def written(keyed: KeyedState) -> bytes:
    frozen = keyed.freeze()
    data = b"".join(block for block, _ in write_blocks(frozen, GROUPS))
    for part in frozen:
        part.release()
    return data


def restored(data: bytes, clock: ManualClock, first: int = 0, last: int = GROUPS - 1) -> KeyedState:
    keyed, _ = new_state(clock)
    keyed.restore(StateBlocks(data, first, last))
    return keyed


def size(keyed: KeyedState, name: str) -> int:
    return len(keyed.table(name))
