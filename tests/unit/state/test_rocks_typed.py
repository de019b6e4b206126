"""Rows of declared types hold no pickles: not in RocksDB, not in its checkpoints, whatever the type."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from test_rocks_checkpoints import GROUPS, Subtasks

from penstock.common.time import Time
from penstock.core.durations import Instant
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import NativeHandle
from penstock.core.row import Row
from penstock.core.typeinfo import TypeInformation, Types
from penstock.core.unpickling import loads_stored
from penstock.operators.window.windows import TimeWindow
from penstock.snapshot.storage import SnapshotStore
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.state.keyed import KeyedState
from penstock.state.rocks import values
from penstock.state.rocks.files import NativeBlocks
from penstock.state.rocks.large_collections import LARGE_ABOVE
from penstock.state.ttl_config import StateTtlConfig
from penstock.state_processor.blocks import blocks
from tests.plain_values import same

INNER = Types.ROW_NAMED(["word", "at"], [Types.STRING(), Types.INSTANT()])
TOO_LARGE = 2**100
"""Fits its type, but no column."""
CASES: list[tuple[TypeInformation, Any]] = [
    (Types.ROW([Types.STRING(), Types.LONG(), Types.DOUBLE()]), Row("a", 1, None)),
    (Types.ROW_NAMED(["a", "b"], [Types.BOOLEAN(), INNER]), Row(a=True, b=Row(word="x", at=Instant(1, 2)))),
    (Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())]), ("a", [1, 2, None])),
    (Types.LIST(Types.STRING()), ["a", None, "b" * 50]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1, "b": None}),
    (Types.MAP(Types.LONG(), Types.MAP(Types.STRING(), Types.DOUBLE())), {1: {"a": 0.5}, 2: {}}),
    (Types.BIG_DEC(), decimal.Decimal("12.50")),
    (Types.BIG_INT(), TOO_LARGE),
    (Types.SQL_DATE(), dt.date(2024, 2, 29)),
    (Types.SQL_TIME(), dt.time(1, 2, 3, 4)),
    (Types.SQL_TIMESTAMP(), dt.datetime(2024, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
    (Types.INSTANT(), Instant(5, 6)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\xff"),
    (Types.OBJECT_ARRAY(Types.TUPLE([Types.LONG(), Types.STRING()])), [(1, "a"), (2, None)]),
]


def rows_of(handle: NativeHandle, store: SnapshotStore) -> Iterator[bytes]:
    """Every row of a checkpoint, as it is stored."""
    with NativeBlocks(handle, store, 0, GROUPS - 1).opened() as (source, _):
        yield from (row for _, row in source.items())


def filled(place: Path, descriptor: Any, value: Any, namespaced: bool = False) -> Subtasks:
    one = Subtasks(place, 1)
    state = one.states[0]
    state.scope.key, state.scope.namespace = "key", TimeWindow(0, 1000)
    state.handle(descriptor, namespaced).update(value)
    return one


@pytest.mark.parametrize(("kind", "value"), CASES, ids=lambda case: str(case)[:40])
def test_a_declared_value_is_data(kind: TypeInformation, value: Any, tmp_path: Path) -> None:
    one = filled(tmp_path, ValueStateDescriptor("s", kind), value)
    handles, _ = one.checkpoint()
    assert not handles[0].pickled
    found = list(rows_of(handles[0], one.store))
    assert len(found) == 1 and not any(map(values.holds_pickles, found))
    after = one.restored(handles, 1)
    after.states[0].scope.key = "key"
    assert same(after.states[0].handle(ValueStateDescriptor("s", kind)).value(), value)
    (block,) = blocks(one.store, handles[0])
    wanted = ["key"] if value == TOO_LARGE else ["key", "value"]
    assert block.outline.declared is (value != TOO_LARGE)
    assert block.columns(wanted, trusted=False)["key"].to_pylist() == ["key"]
    one.close(), after.close()


def grown(state: KeyedState) -> tuple[Any, Any, Any]:
    """A map and a list that are large, and a value that expires, each of a declared type, in windows."""
    timed = ValueStateDescriptor("timed", Types.TUPLE([Types.LONG(), Types.STRING()]))
    timed.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    kept = MapStateDescriptor("map", Types.SQL_DATE(), Types.TUPLE([Types.LONG(), Types.BIG_DEC()]))
    listed = ListStateDescriptor("list", Types.ROW([Types.LONG()]))
    return state.handle(timed, True), state.handle(kept, True), state.handle(listed, True)


def test_large_maps_and_lists_windows_and_times_to_live_too(tmp_path: Path) -> None:
    one = Subtasks(tmp_path, 1)
    state = one.states[0]
    timed, kept, listed = grown(state)
    for key in ("a", dt.date(2024, 1, 1), decimal.Decimal("1.5"), (1, "x")):
        state.scope.key, state.scope.namespace = key, TimeWindow(0, 1000)
        timed.update((1, "x"))
        for number in range(LARGE_ABOVE + 5):
            kept.put(dt.date.fromordinal(1 + number), (number, decimal.Decimal(number)))
            listed.add(Row(number))
        state.timers.event.register(5, key, TimeWindow(0, 1000))
    handles, _ = one.checkpoint()
    found = list(rows_of(handles[0], one.store))
    assert len(found) > 8 * LARGE_ABOVE and not any(map(values.holds_pickles, found))
    assert not handles[0].pickled
    after = one.restored(handles, 1)
    state = after.states[0]
    timed, kept, listed = grown(state)
    state.scope.key, state.scope.namespace = decimal.Decimal("1.5"), TimeWindow(0, 1000)
    assert timed.value() == (1, "x")
    assert kept.get(dt.date.fromordinal(7)) == (6, decimal.Decimal(6))
    assert [row[0] for row in listed.get()] == list(range(LARGE_ABOVE + 5))
    assert {type(key) for _, key, _ in state.timers.event.due(5)} == {str, dt.date, decimal.Decimal, tuple}
    one.close(), after.close()


@dataclass(frozen=True)
class Mine:
    number: int


@pytest.mark.parametrize("kind", [None, Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.STRING())])
def test_what_is_not_declared_or_does_not_fit_is_pickled_as_before(kind: Any, tmp_path: Path) -> None:
    one = filled(tmp_path, ValueStateDescriptor("s", kind), [Mine(1)])
    handles, _ = one.checkpoint()
    assert handles[0].pickled and all(map(values.holds_pickles, rows_of(handles[0], one.store)))
    after = one.restored(handles, 1)
    after.states[0].scope.key = "key"
    assert after.states[0].handle(ValueStateDescriptor("s", kind)).value() == [Mine(1)]
    one.close(), after.close()


def test_rows_of_before_are_read_and_become_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Types.TUPLE([Types.LONG(), Types.STRING()])
    monkeypatch.setattr(values, "encode_typed", values.encode)
    one = filled(tmp_path, ValueStateDescriptor("s", kind), (1, "a"))
    handles, _ = one.checkpoint()
    assert list(map(values.is_pickled, rows_of(handles[0], one.store))) == [True]
    monkeypatch.undo()
    after = one.restored(handles, 1)
    state = after.states[0]
    state.scope.key = "key"
    handle = state.handle(ValueStateDescriptor("s", kind))
    assert handle.value() == (1, "a")
    handle.update((2, "b"))
    (again,), _ = after.checkpoint()
    assert not any(map(values.holds_pickles, rows_of(again, after.store)))
    one.close(), after.close()


def test_a_planted_pickle_in_a_typed_row_is_still_guarded(tmp_path: Path) -> None:
    values.guard()
    with pytest.raises(SnapshotError, match="names builtins.eval"):
        values.decode(b"p" + pickle.dumps(eval, 5))
    for row in (b"", b"q", b"t\x05", b"D\x00", b"k\x01", b"R\x01\x00[\x00", b"E[]", b"i", b"s\xff", b"S"):
        with pytest.raises(CorruptSnapshotError):
            values.decode(row)
    assert values.decode(b"p" + pickle.dumps((1, 2), 5)) == (1, 2) == loads_stored(pickle.dumps((1, 2)))


def test_the_handle_says_pickled_as_soon_as_one_row_is(tmp_path: Path) -> None:
    one = filled(tmp_path, ValueStateDescriptor("s", Types.TUPLE([Types.LONG()])), (1,))
    assert not one.checkpoint()[0][0].pickled
    state = one.states[0]
    state.scope.key = Mine(5)
    state.handle(ValueStateDescriptor("s", Types.TUPLE([Types.LONG()]))).update((2,))
    handle = one.checkpoint()[0][0]
    assert handle.pickled and replace(handle, pickled=False) != handle
    one.close()
