"""What freezing, state files and restores promise, whatever keeps the state: part of the state suite."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import hash_values, key_group_range, key_groups, owner
from penstock.state.chunks import ChunkStore
from penstock.state.keyed import KeyedState
from penstock.testing.conformance.state_base import EMPTY, Handles, New, StateBase, copied, filled
from penstock.testing.conformance.state_kinds import NAMESPACES, ODD_KEYS
from penstock.testing.conformance.state_timers import fired
from penstock.testing.operator_run import KEY_GROUPS, restore_keyed, write_frozen, write_keyed

ODD_VALUES: list[Any] = [
    2**80,
    -(2**63),
    float("-inf"),
    "\udcff",
    "\0",
    b"\xff" * 3,
    [1, [2, {3: (4,)}]],
    {"a": {1, 2}},
    (None,),
    1 + 2j,
    ...,
]


class FreezeTests(StateBase):
    """A freeze is a picture of one moment, whatever happens afterwards."""

    def test_writing_on_does_not_change_what_is_frozen(self, tmp_path: Path) -> None:
        """New, changed and cleared entries, of all kinds, with and without namespaces."""
        for namespaced in (False, True):
            with self.backends(tmp_path / str(namespaced)) as new:
                handles = Handles(new(), namespaced)
                for key in "abc":
                    handles.at(key).fill(1)
                frozen = handles.state.freeze()
                handles.at("a").fill(2)
                for handle in handles.at("b").all:
                    handle.clear()
                handles.at("d").fill(2)
                then = Handles(_read(write_frozen(frozen), new), namespaced)
                assert [then.at(key).read() for key in "abcd"] == [filled(1)] * 3 + [EMPTY]
                after = [handles.at(key).read() for key in "abcd"]
                for part in frozen:
                    part.release()
                assert [handles.at(key).read() for key in "abcd"] == after
                assert after[1:] == [EMPTY, filled(1), filled(2)]
                assert after[0][0] == 2 and after[0][3:] == ((1, 2), (1, 2))

    def test_changing_a_returned_value_does_not_change_what_is_frozen(self, tmp_path: Path) -> None:
        """Users change lists in place that they got from state: before, after and between freezes."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            handles.value.update([1])
            handles.list.add([1])
            handles.map.put("m", [1])
            handles.reducing.add([1])
            first = handles.state.freeze()
            _spoil(handles)
            second_before = copy.deepcopy(handles.read())
            second = handles.state.freeze()
            _spoil(handles)
            wanted = ([1], [[1]], {"m": [1]}, [1], None)
            assert Handles(_read(write_frozen(first), new)).at("k").read() == wanted
            assert Handles(_read(write_frozen(second), new)).at("k").read() == second_before

    def test_a_changed_value_that_is_stored_again_counts(self, tmp_path: Path) -> None:
        """Reading, changing in place and updating is the usual way; it works during a snapshot too."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            handles.value.update([1])
            for number in range(2, 5):
                frozen = handles.state.freeze()
                value = handles.value.value()
                value.append(number)
                handles.value.update(value)
                for part in frozen:
                    part.release()
            assert handles.value.value() == [1, 2, 3, 4]

    def test_several_snapshots_at_once_released_in_any_order(self, tmp_path: Path) -> None:
        """Each shows its own moment until it is released, and then the state goes on."""
        for number, order in enumerate(permutations(range(3))):
            with self.backends(tmp_path / str(number)) as new:
                handles = Handles(new())
                taken = []
                for moment in range(3):
                    handles.at("each").fill(moment)
                    handles.at(("only", moment)).fill(moment)
                    for handle in handles.at(("only", moment - 1)).all:
                        handle.clear()
                    taken.append((handles.state.freeze(), handles.at("each").read()))
                for moment in order:
                    frozen, seen = taken[moment]
                    then = Handles(_read(write_frozen(frozen), new))
                    assert then.at("each").read() == seen
                    alive = [n for n in range(3) if then.at(("only", n)).read() != EMPTY]
                    assert alive == [moment]
                    for part in frozen:
                        part.release()
                    handles.at("each").list.add("after")
                assert handles.at("each").read()[0] == 2
                assert list(handles.list.get())[2:] == ["after"] * 3

    def test_a_snapshot_is_written_while_records_flow(self, tmp_path: Path) -> None:
        """The writer reads in another thread; the task goes on changing everything meanwhile."""
        with self.backends(tmp_path) as new:
            handles = Handles(new())
            for key in range(3000):
                handles.at(key).value.update(("old", key))
            frozen = handles.state.freeze()
            written: list[bytes] = []
            writer = threading.Thread(target=lambda: written.append(write_frozen(frozen)))
            writer.start()
            for key in range(0, 6000, 2):
                handles.at(key).value.update(("new", key))
                handles.at(key + 1).value.clear()
            writer.join()
            for part in frozen:
                part.release()
            then = Handles(_read(written[0], new))
            assert [then.at(key).value.value() for key in range(3000)] == [("old", k) for k in range(3000)]
            assert len(then.state.table("value")) == 3000
            assert len(handles.state.table("value")) == 3000
            assert handles.at(10).value.value() == ("new", 10)


class FileTests(StateBase):
    """State files bring everything back, whole or divided by key group."""

    def test_all_kinds_come_back(self, tmp_path: Path) -> None:
        """For odd keys and namespaces, with all kinds of values, twice over."""
        with self.backends(tmp_path) as new:
            state = new()
            plain, spaced = Handles(state), Handles(state, namespaced=True)
            for mark, key in enumerate(ODD_KEYS):
                plain.at(key).fill(mark)
                spaced.at(key, NAMESPACES[mark % len(NAMESPACES)]).fill(-mark)
            again = copied(copied(state, new), new)
            plain, spaced = Handles(again), Handles(again, namespaced=True)
            for mark, key in enumerate(ODD_KEYS):
                assert plain.at(key).read() == filled(mark), f"key {key!r}"
                place = NAMESPACES[mark % len(NAMESPACES)]
                assert spaced.at(key, place).read() == filled(-mark), f"key {key!r} in {place!r}"

    def test_odd_values_come_back(self, tmp_path: Path) -> None:
        """Of the type they had: numbers that Arrow cannot hold, lone surrogates, nested things."""
        with self.backends(tmp_path) as new:
            handles = Handles(new())
            for number, value in enumerate(ODD_VALUES):
                handles.at(number).value.update(value)
                handles.map.put(number, value)
            again = Handles(copied(handles.state, new))
            for number, value in enumerate(ODD_VALUES):
                found = again.at(number).value.value()
                assert found == value and type(found) is type(value)
                assert dict(again.map.items()) == {number: value}

    def test_a_restored_state_is_an_ordinary_one(self, tmp_path: Path) -> None:
        """It can be changed, cleared and frozen again; many entries and big ones."""
        with self.backends(tmp_path) as new:
            handles = Handles(new())
            for key in range(10_000):
                handles.at(key).value.update(key)
            handles.at("big").value.update("x" * (1 << 20))
            again = Handles(copied(handles.state, new))
            assert len(again.state.table("value")) == 10_001
            again.at(77).value.clear()
            again.at(78).value.update(-1)
            third = Handles(copied(again.state, new))
            assert third.at(77).value.value() is None
            assert third.at(78).value.value() == -1
            assert third.at(9_999).value.value() == 9_999
            assert len(third.at("big").value.value()) == 1 << 20

    def test_nothing_comes_back_as_nothing(self, tmp_path: Path) -> None:
        """A state that was never used, or was emptied, has an empty snapshot."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            handles.fill(1)
            for handle in handles.all:
                handle.clear()
            again = copied(copied(handles.state, new), new)
            assert Handles(again).at("k").read() == EMPTY
            assert len(again.table("value")) == 0

    def test_key_groups_are_divided_and_joined(self, tmp_path: Path) -> None:
        """Two subtasks become three, and one again: every key is in its owner and nowhere else."""
        keys = [*ODD_KEYS, *range(100, 400)]
        with self.backends(tmp_path) as new:
            one = new()
            for key in keys:
                Handles(one).at(key).fill("mine")
                one.timers.event.register(5, key, None)
            files = [write_keyed(one)]
            for parallelism in (2, 3, 1):
                parts = _divided(files, parallelism, new)
                groups = key_groups(hash_values(keys), KEY_GROUPS)
                for key, group in zip(keys, groups.tolist(), strict=True):
                    owners = [n for n, part in enumerate(parts) if Handles(part).at(key).read() != EMPTY]
                    assert owners == [owner(group, parallelism, KEY_GROUPS)], f"key {key!r}"
                files = [write_keyed(part) for part in parts]
            timers = [key for _, key, _ in fired(_divided(files, 1, new)[0].timers.event)]
            assert Counter(timers) == Counter(keys)

    def test_chunk_stores_come_back(self, tmp_path: Path) -> None:
        """Columnar state is frozen with the rest, and waits for its owner to register."""
        with self.backends(tmp_path) as new:
            state = new()
            store = _chunk_store()
            state.register_chunks("chunks", store)
            store.append(0, store.conform(pa.table({"k": [1, 2], "n": [10, 20]})))
            frozen = state.freeze()
            store.append(0, store.conform(pa.table({"k": [3], "n": [30]})))
            data = write_frozen(frozen)
            for part in frozen:
                part.release()
            other, again = new(), _chunk_store()
            restore_keyed(other, data)
            other.register_chunks("chunks", again)
            rows = [row for chunk in again.chunks(0) for row in chunk.table.to_pylist()]
            assert sorted(row["n"] for row in rows) == [10, 20]


def _spoil(handles: Handles) -> None:
    """Change in place whatever the handles give out."""
    handles.value.value().append("spoilt")
    for element in handles.list.get():
        element.append("spoilt")
    handles.map.get("m").append("spoilt")
    for _, value in handles.map.items():
        value.append("spoilt")
    for value in handles.map.values():
        value.append("spoilt")
    handles.reducing.get().append("spoilt")


def _read(data: bytes, new: New) -> KeyedState:
    state = new()
    restore_keyed(state, data)
    return state


def _divided(files: list[bytes], parallelism: int, new: New) -> list[KeyedState]:
    parts = []
    for subtask in range(parallelism):
        part = new()
        first, last = key_group_range(SubtaskIndex(subtask), parallelism, KEY_GROUPS)
        for data in files:
            restore_keyed(part, data, first, last)
        parts.append(part)
    return parts


def _chunk_store() -> ChunkStore:
    def merge(tables: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables)

    return ChunkStore("chunks", ["k"], ["k", "n"], merge, KEY_GROUPS)
