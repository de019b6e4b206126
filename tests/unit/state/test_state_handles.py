"""State handles while snapshots are being written: what is frozen stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState


class Gather:
    """An aggregate whose accumulator is changed in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return sum(accumulator)

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        left.extend(right)
        return left


def extend(left: list[int], right: list[int]) -> list[int]:
    left.extend(right)
    return left


def frozen_content(state: KeyedState) -> tuple[list[Any], dict[str, dict[Any, Any]]]:
    frozen = state.freeze()
    return frozen, {part.name: copy.deepcopy(dict(part.items())) for part in frozen}


def test_everything_frozen_stays_while_every_handle_writes() -> None:
    keyed = heap_state()
    value = keyed.handle(ValueStateDescriptor("value"))
    items = keyed.handle(ListStateDescriptor("list"))
    mapped = keyed.handle(MapStateDescriptor("map"))
    reduced = keyed.handle(ReducingStateDescriptor("reduced", extend))
    gathered = keyed.handle(AggregatingStateDescriptor("gathered", Gather()))
    frozen: list[Any] = []
    kept: list[tuple[list[Any], dict[str, dict[Any, Any]]]] = []
    for round_number in range(4):
        for key in ("a", "b"):
            keyed.scope.key = key
            value.update([*(value.value() or []), round_number])
            items.add([round_number])
            for inner in items:
                inner.append("seen")
            items.update(list(items))
            mapped.put(round_number, [0])
            mapped.put(0, [*mapped.get(0), 1])
            for inner in mapped.values():
                inner.append("touched")
            mapped.put_all(dict(mapped.items()))
            reduced.add([round_number])
            gathered.add(round_number)
        kept.append(frozen_content(keyed))
    for parts, expected in kept:
        assert {part.name: dict(part.items()) for part in parts} == expected
    for parts, _ in (kept[1], kept[3], kept[0], kept[2]):
        for part in parts:
            part.release()
    keyed.scope.key = "a"
    assert value.value() == [0, 1, 2, 3]
    assert [inner[0] for inner in items] == [0, 1, 2, 3]
    assert sorted(mapped) == [0, 1, 2, 3] and len(frozen) == 0
    assert reduced.get() == [0, 1, 2, 3] and gathered.get() == 6


def test_changing_an_element_of_a_list_that_was_appended_to_leaves_the_snapshot_alone() -> None:
    keyed = heap_state()
    keyed.scope.key = "k"
    items = keyed.handle(ListStateDescriptor("list"))
    items.add({"n": 1})
    (frozen,) = keyed.freeze()
    items.add({"n": 2})
    for element in items.get():
        element["n"] = 9
    assert dict(frozen.items()) == {"k": [{"n": 1}]}


def test_changing_a_value_of_a_map_that_was_put_into_leaves_the_snapshot_alone() -> None:
    keyed = heap_state()
    keyed.scope.key = "k"
    mapped = keyed.handle(MapStateDescriptor("map"))
    mapped.put("x", [1])
    (frozen,) = keyed.freeze()
    mapped.put("y", [2])
    for _, inner in mapped.items():
        inner.append(9)
    mapped.get("x").append(9)
    assert dict(frozen.items()) == {"k": {"x": [1]}}


@pytest.mark.parametrize("freeze", [False, True])
def test_map_state(freeze: bool) -> None:
    keyed = heap_state()
    keyed.scope.key = 1
    state = keyed.handle(MapStateDescriptor("m"))
    assert state.is_empty() and list(state.keys()) == [] and state.get("a") is None and "a" not in state
    state["a"] = 1
    if freeze:
        keyed.freeze()
    state.put_all({"b": 2, "c": 3})
    assert dict(state.items()) == {"a": 1, "b": 2, "c": 3} and list(state.values()) == [1, 2, 3]
    for key in state:
        if key != "c":
            del state[key]
    state.remove("nothing")
    assert list(state) == ["c"] and state["c"] == 3 and not state.is_empty()
    state.remove("c")
    assert state.is_empty() and 1 not in keyed.table("m")
    keyed.scope.key = 2
    assert state.is_empty()


@pytest.mark.parametrize("freeze", [False, True])
def test_list_state(freeze: bool) -> None:
    keyed = heap_state()
    keyed.scope.key = 1
    state = keyed.handle(ListStateDescriptor("l"))
    assert list(state.get()) == []
    state.add_all([1, 2])
    if freeze:
        keyed.freeze()
    state.add(3)
    assert list(state) == [1, 2, 3]
    with pytest.raises(ValueError, match="None"):
        state.add(None)
    state.update([7])
    assert list(state.get()) == [7]
    state.update([])
    assert list(state.get()) == [] and len(keyed.table("l")) == 0


@pytest.mark.parametrize("freeze", [False, True])
def test_none_and_clear_forget_a_value(freeze: bool) -> None:
    keyed = heap_state()
    keyed.scope.key = 1
    state = keyed.handle(ValueStateDescriptor("v"))
    state.update(0)
    if freeze:
        keyed.freeze()
    assert state.value() == 0
    state.update(None)
    assert state.value() is None and len(keyed.table("v")) == 0
    state.update(4)
    state.clear()
    assert state.value() is None


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "added", "merged"),
    [
        (ListStateDescriptor("s"), [1, 2, 3], [1, 3, 2]),
        (ReducingStateDescriptor("s", lambda a, b: a + b), [1, 2, 3], 6),
        (AggregatingStateDescriptor("s", Gather()), [1, 2, 3], 6),
    ],
    ids=["list", "reducing", "aggregating"],
)
def test_namespaces_merge(freeze: bool, descriptor: StateDescriptor, added: list[int], merged: Any) -> None:
    keyed = heap_state()
    keyed.scope.key = "k"
    state = keyed.handle(descriptor, namespaced=True)
    for namespace, value in zip(("w1", "w2", "w1"), added, strict=True):
        keyed.scope.namespace = namespace
        state.add(value)
    expected = None
    if freeze:
        frozen, expected = frozen_content(keyed)
    state.merge_namespaces("w1", ["w2", "missing"])
    keyed.scope.namespace = "w1"
    found = state.get()
    assert (list(found) if isinstance(merged, list) else found) == merged
    keyed.scope.namespace = "w2"
    assert not list(state.get() or ())
    if expected is not None:
        assert {part.name: dict(part.items()) for part in frozen} == expected


def test_one_name_with_two_shapes_is_refused() -> None:
    keyed = heap_state()
    keyed.handle(ValueStateDescriptor("x"))
    with pytest.raises(ConfigError, match="x"):
        keyed.handle(ValueStateDescriptor("x"), namespaced=True)
    with pytest.raises(ConfigError, match="name"):
        ValueStateDescriptor("")
