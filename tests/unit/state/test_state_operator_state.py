"""Operator state: lists and broadcast maps, and what a snapshot of them holds."""

from __future__ import annotations

from penstock.state.descriptors import MapStateDescriptor
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore

RULES = MapStateDescriptor("rules")


def test_lists() -> None:
    store = OperatorStateStore()
    state = store.list_state("positions")
    state.add(1)
    state.add_all([2, 3])
    assert state.get() == [1, 2, 3] == list(state)
    assert store.list_state("positions") is state
    state.update([9])
    assert store.snapshot() == {"positions": ListSnapshot(ListMode.SPLIT, (9,))}
    state.clear()
    assert store.snapshot() == {}


def test_a_snapshot_does_not_see_later_changes() -> None:
    store = OperatorStateStore()
    store.list_state("l", ListMode.UNION).add([1])
    store.get_broadcast_state(RULES).put("a", [1])
    taken = store.snapshot()
    store.list_state("l").get()[0].append(2)
    store.get_broadcast_state(RULES)["a"].append(2)
    assert taken == {
        "l": ListSnapshot(ListMode.UNION, ([1],)),
        "rules": ListSnapshot(ListMode.BROADCAST, (("a", [1]),)),
    }


def test_what_was_restored_but_not_asked_for_is_carried_on() -> None:
    restored = {
        "old": ListSnapshot(ListMode.SPLIT, (1,)),
        "asked": ListSnapshot(ListMode.SPLIT, (2,)),
        "rules": ListSnapshot(ListMode.BROADCAST, (("a", 1),)),
    }
    store = OperatorStateStore(restored)
    assert store.snapshot() == restored
    store.list_state("asked").clear()
    assert store.get_broadcast_state(RULES).get("a") == 1
    store.get_broadcast_state(RULES).remove("a")
    assert store.snapshot() == {"old": restored["old"]}


def test_broadcast_maps() -> None:
    state = OperatorStateStore().get_broadcast_state(RULES)
    assert state.is_empty()
    state.put_all({"a": 1, "b": 2})
    state["c"] = 3
    del state["a"]
    state.remove("nothing")
    assert dict(state.items()) == {"b": 2, "c": 3} and list(state) == ["b", "c"] == list(state.keys())
    assert list(state.values()) == [2, 3] and "b" in state and not state.contains("a") and state["b"] == 2
    state.clear()
    assert state.is_empty()
