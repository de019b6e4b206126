"""Time to live against a model, with snapshots and rescaling, on both backends."""

from __future__ import annotations

from typing import Any

import pytest
import ttl_rig
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ttl_rig import (
    GROUPS,
    TTL,
    _backend,  # noqa: F401
    config,
    descriptors,
    written,
)

from penstock.core.clock import ManualClock
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import hash_value, key_group_range
from penstock.datastream.state import StateTtlConfig
from penstock.state.files import StateBlocks
from penstock.state.keyed import KeyedState


class Model:
    """What a map of key to (value, last touched) would do."""

    def __init__(self, on_read: bool) -> None:
        self.on_read = on_read
        self.entries: dict[Any, tuple[Any, int]] = {}

    def get(self, key: Any, now: int) -> Any:
        value, time = self.entries.get(key, (None, now))
        if time + TTL <= now:
            del self.entries[key]
            return None
        if self.on_read and key in self.entries:
            self.entries[key] = (value, now)
        return value

    def put(self, key: Any, value: Any, now: int) -> None:
        self.entries[key] = (value, now)


KEYS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 99)),
    st.tuples(st.just("add"), KEYS, st.integers(0, 99)),
    st.tuples(st.just("get"), KEYS, st.just(0)),
    st.tuples(st.just("wait"), st.integers(0, 80), st.just(0)),
    st.tuples(st.just("restore"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("freeze"), st.just(0), st.just(0)),
)


FIXTURE = [HealthCheck.function_scoped_fixture]


@pytest.mark.parametrize("_backend", ["heap"], indirect=True)
@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
@given(st.lists(STEPS, max_size=40), st.booleans(), st.booleans())
def test_state_on_the_heap_agrees_with_a_model(steps: Any, on_read: bool, in_snapshots: bool) -> None:
    compare_with_model(steps, on_read, in_snapshots)


@pytest.mark.parametrize("_backend", ["rocks"], indirect=True)
@settings(max_examples=8, deadline=None, suppress_health_check=FIXTURE)
@given(st.lists(STEPS, max_size=40), st.booleans(), st.booleans())
def test_state_in_rocksdb_agrees_with_a_model(steps: Any, on_read: bool, in_snapshots: bool) -> None:
    compare_with_model(steps, on_read, in_snapshots)


def compare_with_model(steps: list[tuple[str, int, int]], on_read: bool, in_snapshots: bool) -> None:
    calls = ["update_ttl_on_read_and_write"] * on_read + ["cleanup_full_snapshot"] * in_snapshots
    ttl = config(*calls, cleanup_incrementally=(2, True))
    clock = ManualClock(1000)
    subtasks = Subtasks([ttl_rig.backends.make()], clock, ttl)
    model, reduced = Model(on_read), Model(on_read)
    for what, key, value in steps:
        now = clock.now_ms()
        if what == "put":
            subtasks.at(key)["value"].update(value)
            subtasks.at(key)["map"].put("x", value)
            model.put(key, value, now)
        elif what == "add":
            subtasks.at(key)["reducing"].add(value)
            before = reduced.get(key, now)
            reduced.put(key, value if before is None else before + value, now)
        elif what == "get":
            handles = subtasks.at(key)
            expected = model.get(key, now)
            assert handles["value"].value() == handles["map"].get("x") == expected
            assert handles["reducing"].get() == reduced.get(key, now)
        elif what == "wait":
            clock.advance(key)
        elif what == "freeze":
            subtasks.freeze()
        else:
            subtasks = subtasks.rescaled(key)
    ttl_rig.backends.close()


class Subtasks:
    """The state of some subtasks, keys dealt out by key group."""

    def __init__(self, states: list[KeyedState], clock: ManualClock, ttl: StateTtlConfig) -> None:
        self.states, self.clock, self.ttl = states, clock, ttl
        self.handles = []
        for state in states:
            state.clock = clock
            self.handles.append({d.get_name(): state.handle(d) for d in descriptors(ttl)})

    def at(self, key: int) -> dict[str, Any]:
        number = hash_value(key) % GROUPS * len(self.states) // GROUPS
        self.states[number].scope.key = key
        return self.handles[number]

    def freeze(self) -> None:
        for state in self.states:
            state.freeze()

    def rescaled(self, parallelism: int) -> Subtasks:
        files = [written(state) for state in self.states]
        states = [ttl_rig.backends.make() for _ in range(parallelism)]
        for number, state in enumerate(states):
            first, last = key_group_range(SubtaskIndex(number), parallelism, GROUPS)
            for data in files:
                state.restore(StateBlocks(data, first, last))
        return Subtasks(states, self.clock, self.ttl)
