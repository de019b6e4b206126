"""State as user code gets it: nobody else holds what is in it, whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Types
from penstock.common.time import Time
from penstock.core.copying import itself
from penstock.operators.functions import AggregateFunction
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.handles import (
    AggregatingState,
    KeyedValueState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from penstock.state.heap.backend import heap_state
from penstock.state.private import never_changes
from penstock.state.ttl_config import StateTtlConfig


class Gather(AggregateFunction):
    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return a + b


def keep_first(a: Any, b: Any) -> Any:
    return a


Store = Callable[[Any, Any], None]
Read = Callable[[Any], Any]
KINDS: dict[str, tuple[StateDescriptor, type, Store, Read]] = {
    "value": (ValueStateDescriptor("s"), ValueState, lambda h, v: h.update(v), lambda h: h.value()),
    "list add": (ListStateDescriptor("s"), ListState, lambda h, v: h.add(v), lambda h: list(h.get())[0]),
    "list add_all": (
        ListStateDescriptor("s"),
        ListState,
        lambda h, v: h.add_all([v]),
        lambda h: next(iter(h)),
    ),
    "list update": (
        ListStateDescriptor("s"),
        ListState,
        lambda h, v: h.update([v]),
        lambda h: list(h.get())[0],
    ),
    "map put": (MapStateDescriptor("s"), MapState, lambda h, v: h.put("k", v), lambda h: h.get("k")),
    "map item": (MapStateDescriptor("s"), MapState, lambda h, v: h.__setitem__("k", v), lambda h: h["k"]),
    "map put_all": (
        MapStateDescriptor("s"),
        MapState,
        lambda h, v: h.put_all({"k": v}),
        lambda h: dict(h.items())["k"],
    ),
    "map values": (
        MapStateDescriptor("s"),
        MapState,
        lambda h, v: h.put("k", v),
        lambda h: list(h.values())[0],
    ),
    "reducing": (
        ReducingStateDescriptor("s", keep_first),
        ReducingState,
        lambda h, v: h.add(v),
        lambda h: h.get(),
    ),
    "aggregating": (
        AggregatingStateDescriptor("s", Gather()),
        AggregatingState,
        lambda h, v: h.add(v),
        lambda h: h.get()[0],
    ),
}


def handle_of(kind: str, namespaced: bool, ttl: bool, reuse: bool = False) -> Any:
    state = heap_state()
    if reuse:
        state.own = itself
    state.scope.key, state.scope.namespace = "key", "window"
    made = type(KINDS[kind][0]).__new__(type(KINDS[kind][0]))
    made.__dict__.update(KINDS[kind][0].__dict__)
    if ttl:
        made.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return state.private_handle(made, namespaced)


@pytest.mark.parametrize("ttl", [False, True], ids=["for ever", "ttl"])
@pytest.mark.parametrize("namespaced", [False, True], ids=["keyed", "windowed"])
@pytest.mark.parametrize("kind", KINDS)
def test_neither_what_was_stored_nor_what_was_read_is_the_state(
    kind: str, namespaced: bool, ttl: bool
) -> None:
    _, public, store, read = KINDS[kind]
    handle = handle_of(kind, namespaced, ttl)
    assert isinstance(handle, public)
    mine: dict[str, Any] = {"n": 1, "items": []}
    store(handle, mine)
    mine["items"].append("after it was stored")
    seen = read(handle)
    assert seen == {"n": 1, "items": []}
    seen["items"].append("after it was read")
    assert read(handle) == {"n": 1, "items": []}
    handle.clear()
    assert not (list(handle.get()) if isinstance(handle, ListState) else _left(handle))


def _left(handle: Any) -> Any:
    if isinstance(handle, MapState):
        return not handle.is_empty() or "k" in handle or list(handle.keys()) or list(handle)
    return handle.value() if isinstance(handle, ValueState) else handle.get()


@pytest.mark.parametrize("kind", KINDS)
def test_object_reuse_hands_out_the_state_itself(kind: str) -> None:
    _, _, store, read = KINDS[kind]
    handle = handle_of(kind, namespaced=False, ttl=False, reuse=True)
    mine: dict[str, Any] = {"items": []}
    store(handle, mine)
    mine["items"].append("shared")
    assert read(handle) == {"items": ["shared"]}


def test_windows_that_merge() -> None:
    handle = handle_of("list add", namespaced=True, ttl=False)
    scope = handle._scope
    for window in ("a", "b"):
        scope.namespace = window
        handle.add([window])
    handle.merge_namespaces("a", ["b"])
    scope.namespace = "a"
    assert list(handle.get()) == [["a"], ["b"]]


@pytest.mark.parametrize("value", [None, 0, "", (), 5])
def test_values_that_cannot_change(value: Any) -> None:
    handle = handle_of("value", namespaced=False, ttl=False)
    handle.update(7)
    handle.update(value)
    assert handle.value() == value


def test_state_of_a_type_that_cannot_change_is_handed_out_as_it_is() -> None:
    assert type(heap_state().private_handle(ValueStateDescriptor("n", Types.LONG()))) is KeyedValueState
    pair = Types.TUPLE([Types.STRING(), Types.SQL_DATE()])
    assert never_changes(pair) and not never_changes(Types.ROW([Types.LONG()]))
    assert not never_changes(Types.TUPLE([Types.LIST(Types.LONG())])) and not never_changes(None)
