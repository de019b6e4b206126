"""Time to live: each kind of state, each way of cleaning up, both clocks, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ttl_rig import (
    GROUPS,
    TTL,
    _backend,  # noqa: F401
    config,
    descriptors,
    new_state,
    restored,
    size,
    timed,
    written,
)

from penstock.core.errors import ConfigError
from penstock.core.ids import EventTime
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import StateTtlConfig
from penstock.state.backend import EntryShape
from penstock.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.files import StateBlocks
from penstock.testing import Harness

# --- rules -----------------------------------------------------------------------------------------


def test_a_value_lives_exactly_its_time() -> None:
    keyed, clock = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v")))
    value.update(1)
    clock.advance(TTL - 1)
    assert value.value() == 1
    clock.advance(1)
    assert value.value() is None
    assert size(keyed, "v") == 0


def test_reading_prolongs_life_only_if_asked_for() -> None:
    keyed, clock = new_state()
    written_only = keyed.handle(timed(ValueStateDescriptor("w")))
    read_too = keyed.handle(timed(ValueStateDescriptor("r"), config("update_ttl_on_read_and_write")))
    for handle in (written_only, read_too):
        handle.update(1)
    clock.advance(TTL - 1)
    assert (written_only.value(), read_too.value()) == (1, 1)
    clock.advance(TTL - 1)
    assert (written_only.value(), read_too.value()) == (None, 1)
    clock.advance(TTL)
    assert read_too.value() is None


def test_an_expired_value_may_be_seen_once_until_it_is_cleaned_up() -> None:
    keyed, clock = new_state()
    ttl = config("return_expired_if_not_cleaned_up", "disable_cleanup_in_background")
    handles = {d.get_name(): keyed.handle(d) for d in descriptors(ttl)}
    handles["value"].update(1)
    handles["list"].update([1, 2])
    handles["map"].put_all({"a": 1})
    handles["reducing"].add(1)
    handles["aggregating"].add(1)
    clock.advance(TTL)
    assert handles["map"].get("a") == 1 and handles["map"].get("a") is None
    assert handles["value"].value() == 1 and handles["value"].value() is None
    assert list(handles["list"].get()) == [1, 2] and list(handles["list"].get()) == []
    assert handles["reducing"].get() == 1 and handles["reducing"].get() is None
    assert handles["aggregating"].get() == [1] and handles["aggregating"].get() is None
    assert all(size(keyed, name) == 0 for name in handles)


def test_list_elements_and_map_entries_expire_each_on_their_own() -> None:
    keyed, clock = new_state()
    items = keyed.handle(timed(ListStateDescriptor("list")))
    mapped = keyed.handle(timed(MapStateDescriptor("map")))
    items.add(1)
    mapped["a"] = 1
    clock.advance(60)
    items.add_all([2, 3])
    mapped["b"] = 2
    clock.advance(60)
    assert list(items) == [2, 3] and list(items.get()) == [2, 3]
    assert "a" not in mapped and mapped["b"] == 2
    assert list(mapped.items()) == [("b", 2)] and list(mapped) == ["b"] and list(mapped.values()) == [2]
    clock.advance(60)
    assert list(items.get()) == [] and mapped.is_empty()
    assert size(keyed, "list") == size(keyed, "map") == 0


def test_reading_a_list_or_map_as_a_whole_refreshes_all_that_lives() -> None:
    keyed, clock = new_state()
    ttl = config("update_ttl_on_read_and_write")
    items = keyed.handle(timed(ListStateDescriptor("list"), ttl))
    mapped = keyed.handle(timed(MapStateDescriptor("map"), ttl))
    items.update([1, 2])
    mapped.put_all({"a": 1, "b": 2})
    for _ in range(3):
        clock.advance(TTL - 1)
        assert list(items.get()) == [1, 2]
        assert mapped.get("a") == 1
    assert list(mapped.keys()) == ["a"]


def test_none_is_refused_in_lists_and_clears_values() -> None:
    keyed, _ = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v")))
    value.update(1)
    value.update(None)
    assert size(keyed, "v") == 0
    with pytest.raises(ValueError, match="None"):
        keyed.handle(timed(ListStateDescriptor("l"))).add(None)


def test_a_disabled_ttl_is_none() -> None:
    keyed, clock = new_state()
    off = config(set_update_type=(StateTtlConfig.UpdateType.Disabled,))
    value = keyed.handle(timed(ValueStateDescriptor("v"), off))
    value.update(1)
    clock.advance(10 * TTL)
    assert value.value() == 1 and keyed.table("v").get("k") == 1


def test_one_name_is_one_state() -> None:
    keyed, _ = new_state()
    keyed.handle(timed(ValueStateDescriptor("x")))
    keyed.handle(timed(ValueStateDescriptor("x")))
    with pytest.raises(ConfigError, match="'x'.*different names"):
        keyed.handle(ValueStateDescriptor("x"))
    with pytest.raises(ConfigError, match="value and as list"):
        keyed.handle(timed(ListStateDescriptor("x")))


def test_merging_namespaces_leaves_out_what_has_expired() -> None:
    keyed, clock = new_state()
    handles = {d.get_name(): keyed.handle(d, namespaced=True) for d in descriptors(config())}
    scope = keyed.scope
    for window, value in (("old", 1), ("new", 2), ("target", 4)):
        scope.namespace = window
        handles["list"].add(value)
        handles["reducing"].add(value)
        handles["aggregating"].add(value)
        clock.advance(60)
    for name in ("list", "reducing", "aggregating"):
        handles[name].merge_namespaces("target", ["old", "new"])
    scope.namespace = "target"
    assert list(handles["list"].get()) == [4]
    assert handles["reducing"].get() == 4 and handles["aggregating"].get() == [4]


def test_merging_namespaces_joins_what_lives() -> None:
    keyed, clock = new_state()
    handles = {d.get_name(): keyed.handle(d, namespaced=True) for d in descriptors(config())}
    for window, value in (("a", 1), ("target", 4)):
        keyed.scope.namespace = window
        for name in ("list", "reducing", "aggregating"):
            handles[name].add(value)
        clock.advance(10)
    for name in ("list", "reducing", "aggregating"):
        handles[name].merge_namespaces("target", ["a", "empty"])
        assert len(keyed.table(name, EntryShape.NAMESPACED)) == 1
    keyed.scope.namespace = "target"
    assert sorted(handles["list"].get()) == [1, 4]
    assert handles["reducing"].get() == 5 and sorted(handles["aggregating"].get()) == [1, 4]


# --- cleaning up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("_backend", ["heap"], indirect=True)
def test_entries_nobody_reads_go_away_little_by_little() -> None:
    keyed, clock = new_state()
    handles = {d.get_name(): keyed.handle(d) for d in descriptors(config(cleanup_incrementally=(3, False)))}
    for n in range(30):
        keyed.scope.key = n
        handles["value"].update(n)
        handles["list"].add(n)
        handles["map"].put(n, n)
        handles["reducing"].add(n)
        handles["aggregating"].add(n)
    clock.advance(TTL)
    keyed.scope.key = "other"
    handles["value"].value()
    assert size(keyed, "value") == 27
    for _ in range(10):
        handles["value"].value()
        handles["list"].get()
        handles["map"].get("x")
        handles["reducing"].get()
        handles["aggregating"].get()
    assert [size(keyed, name) for name in handles] == [0] * 5


@pytest.mark.parametrize("_backend", ["heap"], indirect=True)
def test_sweeping_spares_what_was_refreshed_meanwhile() -> None:
    keyed, clock = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v"), config(cleanup_incrementally=(1, False))))
    for key in ("a", "b", "c"):
        keyed.scope.key = key
        value.update(1)
    clock.advance(TTL)
    for key in ("a", "b", "c"):
        keyed.scope.key = key
        value.update(2)
    for _ in range(10):
        clock.advance(7)
        keyed.scope.key = "d"
        value.value()
    for key in ("a", "b", "c"):
        keyed.scope.key = key
        assert value.value() == 2


def test_without_background_cleanup_nothing_is_swept() -> None:
    keyed, clock = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v"), config("disable_cleanup_in_background")))
    value.update(1)
    clock.advance(TTL)
    keyed.scope.key = "other"
    for _ in range(20):
        clock.advance(10)
        value.value()
    assert size(keyed, "v") == 1


@pytest.mark.parametrize("in_snapshots", [True, False])
def test_expired_entries_are_left_out_of_snapshots_if_asked_for(in_snapshots: bool) -> None:
    keyed, clock = new_state()
    calls = ["disable_cleanup_in_background"] + ["cleanup_full_snapshot"] * in_snapshots
    handles = {d.get_name(): keyed.handle(d) for d in descriptors(config(*calls))}
    for key in ("old", "new"):
        keyed.scope.key = key
        handles["value"].update(1)
        handles["list"].add(1)
        handles["map"].put("a", 1)
        handles["reducing"].add(1)
        handles["aggregating"].add(1)
        clock.advance(60)
    handles["list"].add(2)
    keyed.scope.key = "old"
    handles["list"].add(3)
    found = {name: (entries, values) for name, _, entries, values, _ in _blocks(written(keyed))}
    for name in handles:
        assert sorted(found[name][0]) == (["new"] if in_snapshots and name != "list" else ["new", "old"])
    lists = dict(zip(*found["list"], strict=True))
    assert [v for v, _ in lists["old"]] == ([3] if in_snapshots else [1, 3])
    assert size(keyed, "value") == 2


def _blocks(data: bytes) -> Any:
    return StateBlocks(data, 0, GROUPS - 1).tables()


def test_cleaning_up_does_not_disturb_a_snapshot_being_written() -> None:
    keyed, clock = new_state()
    handles = {d.get_name(): keyed.handle(d) for d in descriptors(config("update_ttl_on_read_and_write"))}
    handles["list"].update([[1], [2]])
    handles["map"].put_all({"a": [1], "b": [2]})
    handles["value"].update([1])
    frozen = keyed.freeze()
    handles["value"].value().append(9)
    next(iter(handles["list"].get())).append(9)
    handles["map"].get("a").append(9)
    clock.advance(TTL)
    assert (
        handles["value"].value() is None and list(handles["list"].get()) == [] and handles["map"].is_empty()
    )
    content = {part.name: dict(part.items()) for part in frozen}
    assert content["list"] == {"k": [([1], 1000), ([2], 1000)]}
    assert content["map"] == {"k": {"a": ([1], 1000), "b": ([2], 1000)}}
    assert content["value"] == {"k": ([1], 1000)}
    for part in frozen:
        part.release()
    assert [size(keyed, name) for name in ("value", "list", "map")] == [0, 0, 0]


# --- event time ------------------------------------------------------------------------------------


def test_event_time_is_the_watermark() -> None:
    keyed, clock = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v"), config("use_event_time")))
    assert keyed.has_timers
    keyed.timers.watermark = EventTime(5000)
    value.update(1)
    clock.advance(100 * TTL)
    assert value.value() == 1
    keyed.timers.watermark = EventTime(5000 + TTL - 1)
    assert value.value() == 1
    keyed.timers.watermark = EventTime(5000 + TTL)
    assert value.value() is None


def test_entries_from_before_the_first_watermark_get_their_time_later() -> None:
    keyed, _ = new_state()
    ttl = config("use_event_time")
    handles = {d.get_name(): keyed.handle(d) for d in descriptors(ttl)}
    handles["value"].update(1)
    handles["list"].add(1)
    handles["map"].put("a", 1)
    keyed.timers.watermark = EventTime(5000)
    for watermark, alive in ((5000, True), (5000 + TTL - 1, True), (5000 + TTL, False)):
        keyed.timers.watermark = EventTime(watermark)
        assert (handles["value"].value() == 1) is alive
        assert (list(handles["list"].get()) == [1]) is alive
        assert (handles["map"].get("a") == 1) is alive


def test_a_timer_sees_the_state_of_its_own_time() -> None:
    """The watermark may leap: what lived at the timer's time is there when the timer fires."""
    keyed, _ = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v"), config("use_event_time")))
    timers = keyed.timers
    timers.watermark = EventTime(1000)
    value.update(1)
    seen: list[Any] = []
    for time in (1050, 1000 + TTL):
        timers.event.register(time, "k", None)
    timers.watermark = EventTime(9000)
    timers.event.fire_until(9000, lambda time, key, namespace: seen.append((time, value.value())))
    assert seen == [(1050, 1), (1000 + TTL, None)]


class LastSeen(KeyedProcessFunction):
    """The value of the record before, unless that is too long ago."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = timed(ValueStateDescriptor("last"), config("use_event_time"))
        self._last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self._last.value()
        self._last.update(value)


@pytest.mark.parametrize("_backend", ["heap"], indirect=True)
def test_a_function_that_uses_no_timers_follows_the_watermark() -> None:
    with Harness(LastSeen(), keyed_by=lambda value: "k") as harness:
        for watermark, value in ((1000, 1), (1000 + TTL - 1, 2), (1000 + 2 * TTL - 1, 3)):
            harness.watermark(watermark)
            harness.push(value)
        harness.restore()
        harness.push(4)
        assert harness.take() == [None, 1, None, 3]


# --- snapshots and rescaling -----------------------------------------------------------------------


def test_time_goes_on_while_the_job_is_down() -> None:
    keyed, clock = new_state()
    value = keyed.handle(timed(ValueStateDescriptor("v")))
    value.update(1)
    data = written(keyed)
    clock.advance(TTL - 1)
    again = restored(data, clock)
    assert again.handle(timed(ValueStateDescriptor("v"))).value() == 1
    clock.advance(1)
    assert restored(data, clock).handle(timed(ValueStateDescriptor("v"))).value() is None


def test_a_ttl_can_come_and_go_over_a_restore() -> None:
    keyed, clock = new_state()
    keyed.handle(ValueStateDescriptor("v")).update(1)
    keyed.handle(ListStateDescriptor("l")).update([1, 2])
    keyed.handle(MapStateDescriptor("m")).put_all({"a": 1})
    clock.advance(10 * TTL)
    timed_state = restored(written(keyed), clock)
    value = timed_state.handle(timed(ValueStateDescriptor("v")))
    items = timed_state.handle(timed(ListStateDescriptor("l")))
    mapped = timed_state.handle(timed(MapStateDescriptor("m")))
    clock.advance(TTL - 1)
    assert value.value() == 1 and list(items.get()) == [1, 2] and mapped.get("a") == 1
    untimed = restored(written(timed_state), clock)
    clock.advance(1)
    assert value.value() is None and list(items.get()) == [] and mapped.get("a") is None
    assert untimed.handle(ValueStateDescriptor("v")).value() == 1
    assert list(untimed.handle(ListStateDescriptor("l")).get()) == [1, 2]
    assert dict(untimed.handle(MapStateDescriptor("m")).items()) == {"a": 1}
