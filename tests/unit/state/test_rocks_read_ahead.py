"""Entries of a batch that are read together: never anything but the truth, and not without need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock.state.backend import EntryShape
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.rocks import bulk, keys, values
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.cache import CachedRows
from penstock.state.rocks.database import Database, RocksSettings
from penstock.state.rocks.forecast import FEWEST, Forecast

KEYS: list[Any] = [*range(-3, 6), 2**63, 2.5, "s", "", b"b", (1, None), True]
VALUES: list[Any] = [1, -(2**63), 2**64, 1.5, float("inf"), "text", b"bytes", None, [1], {"a": [2]}, (1, 2.0)]
ENTRIES: dict[EntryShape, Callable[[Any], Any]] = {
    EntryShape.KEY: lambda key: key,
    EntryShape.NAMESPACED: lambda key: (key, (0, 10)),
}
Batch = tuple[list[tuple[str, int, int]], int]
"""What is done to which key with which value, and how many of the keys were not expected."""


def make(place: Path, **changes: Any) -> KeyedState:
    return KeyedState(RocksBackend(RocksSettings(str(place), memory_bytes=8 << 20, **changes), 128))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forecast, "says", lambda *_: True)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each read asked for, in order."""
    sizes: list[int] = []
    opened = Database.open

    def open_counting(self: Database) -> None:
        opened(self)
        get = self.get

        def counted(key: Any) -> Any:
            sizes.append(len(key) if isinstance(key, list) else 1)
            return get(key)

        self.get = counted

    monkeypatch.setattr(Database, "open", open_counting)
    return sizes


places = st.integers(0, 30)
steps = st.tuples(st.sampled_from(["get", "put", "own", "remove", "in", "freeze", "expect"]), places, places)
histories = st.lists(st.tuples(st.lists(steps, max_size=20), st.integers(0, 20)), max_size=8)


def play(batches: list[Batch], table: Any, other: Any, entry_of: Callable[[Any], Any]) -> None:
    """The same to both, which must say the same; the first is told what comes."""
    for todo, unforeseen in batches:
        entries = [entry_of(KEYS[place % len(KEYS)]) for _, place, _ in todo]
        table.expect(entries[unforeseen:])
        for (name, _, number), entry in zip(todo, entries, strict=True):
            if name == "put":
                for one in (table, other):
                    one.put(entry, values.decode(values.encode(VALUES[number % len(VALUES)])))
            elif name == "own":
                for one in (table, other):
                    found = one.own(entry)
                    if type(found) is list:
                        found.append(number)
            elif name == "remove":
                table.remove(entry)
                other.remove(entry)
            elif name == "freeze":
                views = table.freeze(), other.freeze()
                table.expect(entries)
                assert dict(views[0].items()) == dict(views[1].items())
                for view in views:
                    view.release()
            elif name == "expect":
                table.expect(entries)
            assert (table.get(entry), entry in table) == (other.get(entry), entry in other)
    assert sorted(map(repr, table.entries())) == sorted(map(repr, other.entries()))
    assert all(table.get(entry) == other.get(entry) for entry in other.entries())


def agrees(place: Path, played: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    serial = count()

    @settings(max_examples=played, deadline=None, phases=phases, report_multiple_bugs=False)
    @given(histories, st.sampled_from([2, 5, 12, 1000]), st.sampled_from(list(ENTRIES)))
    def duel(batches: list[Batch], room: int, shape: EntryShape) -> None:
        state = make(place / str(next(serial)), cache_entries=room)
        try:
            play(batches, state.table("t", shape), heap_state().table("t", shape), ENTRIES[shape])
        finally:
            state.close()

    duel()


def test_whatever_is_expected_it_agrees_with_the_heap(quick_disk: Path, always: None) -> None:
    agrees(quick_disk, 60)


def over_changes(patch: pytest.MonkeyPatch) -> None:
    """What is read now is taken over changes that are not written."""
    read = CachedRows._read

    def expect(self: Any, entries: Any) -> None:
        read(self, list(dict.fromkeys(entries)))

    patch.setattr(CachedRows, "expect", expect)


def over_values_that_can_change(patch: pytest.MonkeyPatch) -> None:
    """Only plain values are looked for in the cache before rows are read."""
    read = CachedRows._read

    def expect(self: Any, entries: Any) -> None:
        read(self, [entry for entry in dict.fromkeys(entries) if entry not in self._plain])

    patch.setattr(CachedRows, "expect", expect)


def read_before_room_is_made(patch: pytest.MonkeyPatch) -> None:
    """The row is of before a change that is written when room is made."""
    forget = CachedRows._forget_first

    def forget_unwritten(self: Any, *arguments: Any) -> None:
        self._dirty.clear()
        forget(self, *arguments)

    patch.setattr(CachedRows, "_forget_first", forget_unwritten)


def out_of_place(patch: pytest.MonkeyPatch) -> None:
    """Rows come in the order of their keys and are taken for those of the entries as they were given."""
    patch.setattr(bulk, "in_order", lambda row_keys: sorted(range(len(row_keys)), key=lambda n: -n))
    patch.setattr(bulk, "decoded", lambda rows: [values.decode(row) for row in reversed(rows)])


@pytest.mark.parametrize(
    "plant",
    [over_changes, over_values_that_can_change, read_before_room_is_made, out_of_place],
    ids=lambda plant: plant.__name__,
)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    quick_disk: Path,
    always: None,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        agrees(quick_disk, 300, (Phase.generate,))


def test_a_batch_is_read_at_once_and_what_is_there_not_again(
    quick_disk: Path, reads: list[int], always: None
) -> None:
    state = make(quick_disk, cache_entries=100)
    table = state.table("t")
    for key in range(400):
        table.put(key, [key] if key % 2 else key)
    reads.clear()
    table.expect([*range(40), *range(40)])
    assert reads == [40]
    assert [table.get(key) for key in range(40)] == [[key] if key % 2 else key for key in range(40)]
    table.expect(range(40))
    assert reads == [40]
    state.close()


def test_huge_values_are_not_all_read_ahead(quick_disk: Path, reads: list[int], always: None) -> None:
    state = make(quick_disk, cache_bytes=1 << 20)
    table: Any = state.table("t")
    for key in range(600):
        table.put(key, "x" * 20_000)
    reads.clear()
    table.expect(range(300))
    assert sum(reads) < 150
    assert all(len(table.get(key)) == 20_000 for key in range(300))
    state.close()


def test_only_what_pays_is_read_ahead() -> None:
    forecast = Forecast()
    assert not forecast.says(1000, 5000), "not before it was tried"
    said = [forecast.says(1000, 900 if number == 0 else 0) for number in range(14)]
    assert all(said)
    assert not forecast.says(1000, 0), "now and then it is tried again"
    assert not forecast.says(1000, 10), "hardly anything was missing"
    assert not forecast.says(FEWEST - 1, 1000) and not forecast.says(1000, 1000)
    assert forecast.says(1000, 1000)


@pytest.fixture
def estimates(quick_disk: Path) -> Iterator[Any]:
    state = make(quick_disk, cache_bytes=4 << 20)
    yield state.table("t")
    state.close()


def test_lists_that_grow_in_the_cache_are_weighed_again(estimates: Any) -> None:
    for turn in range(40):
        for key in range(100):
            found = estimates.own(key)
            if found is None:
                estimates.put(key, [turn])
            else:
                found.extend(["x" * 1000] * 3)
        estimates.flush()
        for other in range(600):
            estimates.put(("other", turn, other), other)
    held = sum(len(value) for value in estimates._held.values()) * 1000
    assert held < 8 << 20
    assert all(len(estimates.get(key)) == 1 + 3 * 39 for key in range(100))


@pytest.mark.parametrize(
    "shape, entries",
    [
        (EntryShape.KEY, [5, -(2**63), 2**63 - 1, 0]),
        (EntryShape.KEY, [5, 2**63]),
        (EntryShape.KEY, [1.5, 2, "s", True]),
        (EntryShape.NAMESPACED, [(1, "w"), (2, 1), ("k", 1.0), (3, None)]),
    ],
)
def test_many_row_keys_are_those_of_each(shape: EntryShape, entries: list[Any], quick_disk: Path) -> None:
    state = make(quick_disk)
    table: Any = state.table("t", shape)
    found = bulk.row_keys(table._prefix, table._groups, shape, entries)
    assert found == [table.row_key(entry) for entry in entries]
    assert sorted(bulk.in_order(found)) == list(range(len(entries)))
    assert [keys.decode_entry(shape, row) for row in found] == entries
    state.close()


@pytest.mark.parametrize(
    "found",
    [
        [1, -(2**63), 2**63 - 1],
        [1, 2**63],
        [1.5, float("-inf"), -0.0],
        [1, 2.0],
        [True, False],
        ["12345678"],
        [],
    ],
)
@pytest.mark.parametrize("encode", [values.encode, values.encode_typed])
def test_many_values_are_those_of_each(found: list[Any], encode: Callable[[Any], bytes]) -> None:
    rows = bulk.encoded(found, encode)
    assert rows == [encode(value) for value in found]
    again = bulk.decoded(rows)
    assert again == found and list(map(type, again)) == list(map(type, found))


def test_nan_keeps_its_bits() -> None:
    (row,) = bulk.encoded([float("nan")], values.encode)
    assert row == values.encode(float("nan")) and bulk.decoded([row])[0] != bulk.decoded([row])[0]
