"""Timers, keys and key groups: what fires when, for whom, and where a key lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock.common import Types
from penstock.core.errors import PenstockError
from penstock.core.ids import KeyGroup, SubtaskIndex
from penstock.core.keygroups import hash_value, key_group_range, key_groups, owner
from penstock.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.plan import default_max_parallelism
from penstock.testing import Harness, Record
from penstock.testing.local import local_cluster


def first(value: Any) -> Any:
    return value[0]


class Timers(KeyedProcessFunction):
    """Does what the record says: (key, action, time); a timer tells its key, its time and the watermark."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        _, action, time = value
        getattr(ctx.timer_service(), action)(time)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


EVENT, DELETE = "register_event_time_timer", "delete_event_time_timer"
CLOCK = "register_processing_time_timer"


def harness(function: Any = None) -> Harness:
    return Harness(function or Timers(), keyed_by=first)


def test_registering_twice_fires_once() -> None:
    with harness() as h:
        h.push(Record(("a", EVENT, 10), 0), Record(("a", EVENT, 10), 0), Record(("b", EVENT, 10), 0))
        h.watermark(10)
        assert sorted(h.take()) == [("a", 10, 10), ("b", 10, 10)]


def test_the_domains_are_separate() -> None:
    with harness() as h:
        h.push(("a", EVENT, 10), ("a", CLOCK, 10))
        h.watermark(10)
        h.advance(20)
        assert len(h.take()) == 2


def test_deleting_a_missing_timer_is_no_error() -> None:
    with harness() as h:
        h.push(("a", DELETE, 10), ("a", EVENT, 20), ("a", DELETE, 20))
        h.watermark(50)
        assert h.take() == []


def test_order_is_by_timestamp() -> None:
    with harness() as h:
        h.push(*((key, EVENT, time) for key, time in (("a", 30), ("b", 10), ("c", 20))))
        h.watermark(40)
        assert [time for _, time, _ in h.take()] == [10, 20, 30]


def test_event_timers_fire_at_their_time_and_see_the_new_watermark() -> None:
    with harness() as h:
        h.push(("a", EVENT, 10))
        h.watermark(9)
        assert h.take() == []
        h.watermark(25)
        assert h.take() == [("a", 10, 25)]


def test_a_timer_in_the_past_fires_with_the_next_watermark() -> None:
    with harness() as h:
        h.watermark(100)
        h.push(("a", EVENT, 10))
        assert h.take() == []
        h.watermark(101)
        assert h.take() == [("a", 10, 101)]


class Chain(Timers):
    """Each timer registers the next, ten later, up to 50."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if timestamp < 50:
            ctx.timer_service().register_event_time_timer(timestamp + 10)
        yield timestamp


def test_registered_within_a_timer_and_due_it_fires_in_the_same_round() -> None:
    with harness(Chain()) as h:
        h.push(("a", EVENT, 10))
        h.watermark(35)
        assert h.take() == [10, 20, 30]
        h.watermark(100)
        assert h.take() == [40, 50]


def test_processing_timers_fire_a_millisecond_later_at_the_earliest() -> None:
    with harness() as h:
        h.push(("a", CLOCK, 10))
        h.advance(10)
        assert h.take() == []
        h.advance(1)
        assert [time for _, time, _ in h.take()] == [10]


def test_timers_are_part_of_snapshots_and_overdue_ones_fire_after_a_restore() -> None:
    with harness() as h:
        h.push(("a", CLOCK, 10), ("b", EVENT, 10))
        kept = h.snapshot()
        h.advance(100)
        h.watermark(50)
        assert len(h.take()) == 2
        h.restore(kept)
        h.advance(0)
        assert [key for key, _, _ in h.take()] == ["a"]
        h.watermark(51)
        assert [key for key, _, _ in h.take()] == ["b"]


class PerKey(Timers):
    """Counts the records of a key and says the number when the timer comes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        return super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value()


def test_a_timer_works_on_the_state_of_its_own_key() -> None:
    with harness(PerKey()) as h:
        h.push(("a", EVENT, 10), ("a", EVENT, 10), ("b", EVENT, 10))
        h.watermark(10)
        assert sorted(h.take()) == [("a", 2), ("b", 1)]


class Unkeyed(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(1)
        return iter(())


def test_without_keys_there_are_no_timers() -> None:
    with Harness(Unkeyed()) as h, pytest.raises(Exception, match="key"):
        h.push(1)


def test_key_group_ranges() -> None:
    assert [key_group_range(SubtaskIndex(i), 3, 128) for i in range(3)] == [(0, 42), (43, 85), (86, 127)]
    for group in range(128):
        assert owner(KeyGroup(group), 3, 128) == group * 3 // 128


@pytest.mark.parametrize(("parallelism", "most"), [(1, 128), (86, 256), (30000, 32768)])
def test_the_default_maximum_parallelism(parallelism: int, most: int) -> None:
    assert default_max_parallelism(parallelism) == most


def test_keys_hash_alike_in_every_process() -> None:
    keys = ["Alice", "Bob", 42, -1, ("a", 1), 1.5, b"x"]
    here = [hash_value(key) for key in keys]
    code = f"from penstock.core.keygroups import hash_value; print([hash_value(key) for key in {keys!r}])"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == repr(here)


def test_all_key_groups_are_used() -> None:
    hashes = np.array([hash_value(f"key {n}") for n in range(5000)], dtype=np.uint64)
    assert set(key_groups(hashes, 128).tolist()) == set(range(128))


def test_none_is_no_key() -> None:
    with local_cluster(), pytest.raises(PenstockError, match="None"):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([(None, 1)]).key_by(first)
        list(stream.reduce(lambda a, b: a).execute_and_collect())
