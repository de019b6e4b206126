"""What tables promise the engine, called directly: part of the state suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.state.backend import EntryShape, Table
from penstock.state.handles import ListState, MapState
from penstock.testing.conformance.state_base import EMPTY, Handles, New, StateBase
from penstock.testing.conformance.state_kinds import NAMESPACES, ODD_KEYS

_SOME = 300


def _entries(shape: EntryShape) -> list[Any]:
    if shape is EntryShape.KEY:
        return list(ODD_KEYS)
    pairs = [(key, NAMESPACES[n % len(NAMESPACES)]) for n, key in enumerate(ODD_KEYS)]
    return pairs if shape is EntryShape.NAMESPACED else [(n % 5, *pair) for n, pair in enumerate(pairs)]


def _table(new: New, shape: EntryShape = EntryShape.KEY) -> Table:
    return new().table("table", shape)


class TableTests(StateBase):
    """A table is a dictionary whose values may be changed in place and frozen."""

    def test_a_table_of_each_shape(self, tmp_path: Path) -> None:
        """Entries of odd keys are put, found, counted, listed and removed. Timers are entries, too."""
        for shape in EntryShape:
            with self.backends(tmp_path / shape.name) as new:
                table, entries = _table(new, shape), _entries(shape)
                assert table.name == "table" and table.shape is shape
                assert table.any_entry() is None and table.some_entries(3) == [] == table.entries()
                for entry in entries:
                    assert entry not in table and table.get(entry) is None
                    table.put(entry, True)
                    table.put(entry, True)
                    assert entry in table and table.get(entry) is True and table.peek(entry) is True
                assert len(table) == len(entries) == len(table.entries())
                assert set(table.entries()) == set(entries)
                some = table.some_entries(3)
                assert len(some) == 3 and set(some) <= set(entries) and table.any_entry() in table
                assert set(table.some_entries(1000)) == set(entries)
                for entry in entries[::2]:
                    table.remove(entry)
                    table.remove(entry)
                assert set(table.entries()) == set(entries[1::2]) and entries[0] not in table

    def test_what_is_expected_need_not_come(self, tmp_path: Path) -> None:
        """A hint, right or wrong, changes nothing of what is there, nor of what a view shows."""
        for shape in EntryShape:
            with self.backends(tmp_path / shape.name) as new:
                table, entries = _table(new, shape), _entries(shape)
                for turn in range(4):
                    table.expect([*entries, *entries])
                    for entry in entries[turn:]:
                        assert table.get(entry) == (True if turn else None)
                        table.put(entry, True)
                    table.remove(entries[turn])
                    view = table.freeze()
                    table.expect(entries)
                    assert entries[turn] not in table
                    assert set(dict(view.items())) == set(entries[turn + 1 :]) == set(table.entries())
                    view.release()

    def test_what_is_to_be_seen_is_numbers_by_name(self, tmp_path: Path) -> None:
        """Before anything was stored, and behind it; to ask changes nothing."""
        with self.backends(tmp_path) as new:
            state = new()
            before = state.backend.measures()
            state.table("table").put("k", 1)
            after = state.backend.measures()
            assert all(isinstance(name, str) for name in (*before, *after))
            assert all(float(value) == value for value in (*before.values(), *after.values()))
            assert state.table("table").get("k") == 1

    def test_none_is_a_value(self, tmp_path: Path) -> None:
        """Of a table: only ``in`` tells it from nothing, also in a snapshot."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            table.put("k", None)
            assert table.get("k") is None and "k" in table and len(table) == 1
            assert _shown(table) == {"k": None}
            for other in range(_SOME):
                table.put(other, other)
            assert "k" in table and "never" not in table
            table.remove("k")
            assert "k" not in table

    def test_what_is_owned_may_be_changed_until_the_next_call(self, tmp_path: Path) -> None:
        """Each change counts, however many entries there are, and is in the views frozen after it only."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            assert table.own("never") is None
            for turn in range(3):
                for key in range(_SOME):
                    found = table.own(key)
                    if found is None:
                        table.put(key, [turn])
                    else:
                        found.append(turn)
                before = table.freeze()
                table.own(0).append("later")
                assert dict(before.items())[0] == [0, *(n for t in range(1, turn + 1) for n in ("later", t))]
                before.release()
            assert table.get(7) == [0, 1, 2] == table.peek(7)
            assert table.get(0) == [0, "later", 1, "later", 2, "later"]

    def test_keeping_what_is_owned(self, tmp_path: Path) -> None:
        """A table that says so lets many values be changed until the next freeze."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            for key in range(_SOME):
                table.put(key, [])
            if table.keeps_owned:
                owned = [table.own(key) for key in range(_SOME)]
                for value in owned:
                    value.append(1)
            else:
                for key in range(_SOME):
                    table.own(key).append(1)
            assert _shown(table) == {key: [1] for key in range(_SOME)}

    def test_what_is_guarded_may_be_changed(self, tmp_path: Path) -> None:
        """Parts of a value that was only looked at are handed out: a view does not notice."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            table.put("k", {"part": [1]})
            view = table.freeze()
            part = table.guard(table.peek("k")["part"])
            assert part == [1]
            part.append("changed")
            assert dict(view.items()) == {"k": {"part": [1]}}
            view.release()

    def test_a_list_of_entries_stays_as_it_is(self, tmp_path: Path) -> None:
        """Whatever is put and removed while it is walked through."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            for key in range(_SOME):
                table.put(key, key)
            walked = table.entries()
            for key in walked:
                table.remove(key)
                table.put(-1 - key, key)
            assert sorted(walked) == list(range(_SOME))
            assert sorted(table.entries()) == list(range(-_SOME, 0))

    def test_views_are_released_in_any_state(self, tmp_path: Path) -> None:
        """Unread, half read, twice; the table goes on, and may be cleared when no view is left."""
        with self.backends(tmp_path) as new:
            table = _table(new)
            for key in range(_SOME):
                table.put(key, key)
            views = [table.freeze() for _ in range(3)]
            assert all(view.name == "table" and view.shape is EntryShape.KEY for view in views)
            assert next(views[0].items())[0] in table
            assert dict(views[1].items()) == {key: key for key in range(_SOME)}
            for view in (*views, *views):
                view.release()
            table.clear()
            assert len(table) == 0 and table.entries() == [] and 5 not in table and table.get(5) is None
            table.put(5, "again")
            assert _shown(table) == {5: "again"}

    def test_views_outlive_their_backend(self, tmp_path: Path) -> None:
        """A task may end while its last snapshot is written."""
        with self.backends(tmp_path) as new:
            state = new()
            table = state.table("table")
            for key in range(_SOME):
                table.put(key, [key])
            view = table.freeze()
            state.close()
            assert dict(view.items()) == {key: [key] for key in range(_SOME)}
            view.release()

    def test_all_is_forgotten(self, tmp_path: Path) -> None:
        """BATCH mode begins anew with each key: no entries, no timers, the same handles."""
        with self.backends(tmp_path) as new:
            state = new()
            plain, spaced = Handles(state), Handles(state, namespaced=True)
            for round_ in range(3):
                for key in ("a", "b"):
                    assert plain.at(key).read() == EMPTY and spaced.at(key, "w").read() == EMPTY
                    plain.fill(round_)
                    plain.list.add_all(range(_SOME))
                    plain.map.put_all({n: n for n in range(_SOME)})
                    spaced.fill(round_)
                assert state.timers.event.next_time() is None
                state.timers.event.register(round_, "a", None)
                state.timers.processing.register(round_, "a", None)
                assert state.timers.event.next_time() == round_
                state.forget()
                assert all(len(table) == 0 for table in state.tables())
            assert state.timers.processing.next_time() is None

    def test_handles_are_of_the_kinds_that_programs_know(self, tmp_path: Path) -> None:
        """A backend may have handles of its own; tables show plain values all the same."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            assert isinstance(handles.map, MapState) and isinstance(handles.list, ListState)
            handles.map.put_all({n: [n] for n in range(_SOME)})
            handles.list.add_all(range(_SOME))
            state = handles.state
            assert state.table("map").peek("k") == {n: [n] for n in range(_SOME)}
            assert state.table("list").peek("k") == list(range(_SOME)) == _shown(state.table("list"))["k"]


def _shown(table: Table) -> dict[Any, Any]:
    view = table.freeze()
    items = list(view.items())
    view.release()
    assert len(dict(items)) == len(items), "each entry is shown once"
    return dict(items)
