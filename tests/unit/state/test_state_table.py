"""The freezing table against a plain dict, under random freezes and releases."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.state.backend import EntryShape, FrozenTable
from penstock.state.heap.backend import HeapTable

KEYS = st.integers(0, 6)


class TableMachine(RuleBasedStateMachine):
    """Every frozen view goes on showing what was there when it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HeapTable("t")
        self.model: dict[int, Any] = {}
        self.frozen: list[tuple[FrozenTable, dict[int, Any]]] = []

    @rule(key=KEYS, value=st.one_of(st.integers(), st.lists(st.lists(st.integers(), max_size=2), max_size=2)))
    def put(self, key: int, value: Any) -> None:
        self.table.put(key, copy.deepcopy(value))
        self.model[key] = copy.deepcopy(value)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.table.remove(key)
        self.model.pop(key, None)

    @rule(key=KEYS, item=st.integers())
    def append_in_place(self, key: int, item: int) -> None:
        if isinstance(self.model.get(key), list):
            self.table.own(key).append([item])
            self.model[key].append([item])

    @rule(key=KEYS, item=st.integers())
    def change_what_get_handed_out_and_put_it_back(self, key: int, item: int) -> None:
        if isinstance(self.model.get(key), list):
            value = self.table.get(key)
            for inner in (value, *value):
                inner.append(item) if inner is not value else inner.append([item])
            self.table.put(key, value)
            changed = self.model[key]
            inners = list(changed)
            changed.append([item])
            for inner in inners:
                inner.append(item)
            self.model[key] = copy.deepcopy(value)

    @rule(key=KEYS)
    def change_what_get_handed_out_after_owning(self, key: int) -> None:
        if isinstance(self.model.get(key), list):
            self.table.own(key).append([0])
            self.model[key].append([0])
            value = self.table.get(key)
            value[0].append(99)
            self.table.put(key, value)
            self.model[key] = copy.deepcopy(value)

    @precondition(lambda self: len(self.frozen) < 4)
    @rule()
    def freeze(self) -> None:
        self.frozen.append((self.table.freeze(), copy.deepcopy(self.model)))

    @precondition(lambda self: self.frozen)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        frozen, _ = self.frozen.pop(data.draw(st.integers(0, len(self.frozen) - 1)))
        frozen.release()
        if data.draw(st.booleans()):
            frozen.release()

    @invariant()
    def the_table_is_the_model(self) -> None:
        assert {key: self.table.peek(key) for key in range(7) if key in self.table} == self.model
        assert {key: value for key in range(7) if (value := self.table.get(key)) is not None} == self.model
        assert sorted(self.table.entries()) == sorted(self.model)
        assert len(self.table) == len(self.model)

    @invariant()
    def frozen_views_do_not_change(self) -> None:
        for frozen, expected in self.frozen:
            pairs = list(frozen.items())
            assert len(pairs) == len(expected)
            assert dict(pairs) == expected


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_an_iteration_that_has_begun_is_not_disturbed() -> None:
    table = HeapTable("t")
    for n in range(10):
        table.put(n, n)
    view = table.freeze()
    items = view.items()
    seen = [next(items), next(items)]
    for n in range(20):
        table.put(n, -n)
    table.remove(5)
    second = table.freeze()
    assert dict([*seen, *items]) == {n: n for n in range(10)}
    view.release()
    assert dict(second.items()) == {n: -n for n in range(20) if n != 5}


def test_unfrozen_access_is_the_dict_itself() -> None:
    table = HeapTable("t")
    value = [1]
    table.put("a", value)
    assert table.get("a") is value and table.own("a") is value
    frozen = table.freeze()
    assert table.get("a") == value and table.get("a") is not value
    frozen.release()
    assert table.get("a") is value


def test_where_the_key_sits() -> None:
    assert EntryShape.KEY.key_of("k") == "k"
    assert EntryShape.NAMESPACED.key_of(("k", "w")) == "k"
    assert EntryShape.TIMER.key_of((5, "k", "w")) == "k"
