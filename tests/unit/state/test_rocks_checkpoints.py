"""Native checkpoints: only new files are stored, and any division of the key groups can be restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import CorruptSnapshotError
from penstock.core.handles import Blob, NativeHandle
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import FrozenFiles
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.rocks import database
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.state.rocks.files import NativeBlocks

GROUPS = 128


class Subtasks:
    """A state divided among some subtasks, with their checkpoints in a store."""

    def __init__(self, place: Path, count: int) -> None:
        self.place = place
        self.store = SnapshotStore(str(place / "job"))
        self.ranges = [key_group_range(SubtaskIndex(n), count, GROUPS) for n in range(count)]
        settings = RocksSettings(str(place / "disk"), memory_bytes=8 << 20, cache_entries=100)
        self.states = [KeyedState(RocksBackend(settings, GROUPS)) for _ in range(count)]

    def checkpoint(self) -> tuple[list[NativeHandle], int]:
        """Handles, and the bytes that were stored."""
        handles, total = [], 0
        for state, groups in zip(self.states, self.ranges, strict=True):
            (frozen,) = state.checkpoint()
            assert isinstance(frozen, FrozenFiles)
            shared, written = frozen.upload(self.store)
            small = {name: Blob.of(data) for name, data in frozen.small_files().items()}
            files = tuple(sorted({**shared, **small}.items()))
            handles.append(NativeHandle("rocksdb", files, groups, frozen.pickled))
            frozen.release()
            total += written
        return handles, total

    def restored(self, handles: list[NativeHandle], count: int, own_files: bool = True) -> Subtasks:
        other = Subtasks(self.place, count)
        for state, (first, last) in zip(other.states, other.ranges, strict=True):
            mine = [handle for handle in handles if handle.overlaps(first, last)]
            state.restore_files(mine, self.store, first, last, own_files)
        return other

    def close(self) -> None:
        for state in self.states:
            state.close()


def fill(state: KeyedState, keys: Any, mark: str) -> None:
    value = state.handle(ValueStateDescriptor("value"))
    kept = state.handle(MapStateDescriptor("map"), namespaced=True)
    for key in keys:
        state.scope.key, state.scope.namespace = key, (0, 10)
        value.update(f"{mark}-{key}" * 20)
        kept.put("m", (mark, key))
        state.timers.event.register(1000 + len(str(key)), key, None)


def fill_one(state: KeyedState, key: Any, elements: int) -> None:
    """A large map and a large list."""
    state.scope.key = key
    kept = state.handle(MapStateDescriptor("large map"))
    grown = state.handle(ListStateDescriptor("large list"))
    for number in range(elements):
        kept.put((number, True), f"{key}-{number}")
        grown.add(number)


def contents(state: KeyedState) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in state.freeze():
        found[part.name] = sorted(part.items(), key=repr)  # type: ignore[union-attr]
        part.release()
    return found


def joined(states: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for state in states:
        for name, items in contents(state).items():
            found[name] = sorted([*found.get(name, []), *items], key=repr)
    return {name: items for name, items in found.items() if items}


def test_only_new_files_are_stored(quick_disk: Path) -> None:
    one = Subtasks(quick_disk, 1)
    fill(one.states[0], range(5000), "old")
    first, full = one.checkpoint()
    assert full > 10_000
    again, nothing = one.checkpoint()
    assert nothing == 0 and {b.path for _, b in again[0].files} == {b.path for _, b in first[0].files}
    fill(one.states[0], range(50), "new")
    changed, little = one.checkpoint()
    assert 0 < little < full / 10
    wanted = contents(one.states[0])
    one.close()

    later = one.restored(changed, 1)
    assert contents(later.states[0]) == wanted
    _, after_restart = later.checkpoint()
    assert after_restart == 0, "restored files are stored already"
    later.close()
    elsewhere = one.restored(changed, 1, own_files=False)
    _, copied = elsewhere.checkpoint()
    assert copied > full / 2, "files of another job's directory are stored anew"
    elsewhere.close()


def test_one_element_more_is_not_all_elements_again(quick_disk: Path) -> None:
    one = Subtasks(quick_disk, 1)
    fill_one(one.states[0], "k", 20_000)
    _, full = one.checkpoint()
    fill_one(one.states[0], "k", 1)
    _, little = one.checkpoint()
    assert little < full / 20
    one.states[0].handle(MapStateDescriptor("large map")).clear()
    one.states[0].handle(ListStateDescriptor("large list")).clear()
    handles, _ = one.checkpoint()
    one.close()
    later = one.restored(handles, 1)
    assert joined(later.states) == {}
    later.close()


def test_a_checkpoint_is_of_its_moment(quick_disk: Path) -> None:
    one = Subtasks(quick_disk, 1)
    fill(one.states[0], range(300), "old")
    wanted = contents(one.states[0])
    handles, _ = one.checkpoint()
    fill(one.states[0], range(600), "new")
    one.states[0].timers.event.fire_until(5000, lambda *timer: None)
    later = one.restored(handles, 1)
    assert contents(later.states[0]) == wanted
    one.close()
    later.close()


def test_any_division(quick_disk: Path) -> None:
    at = Subtasks(quick_disk, 1)
    keys = [*range(300), *(f"k{n}" for n in range(50)), (1, "x"), 2.5, True and 7.0]
    fill(at.states[0], keys, "mark")
    for key in ("many", "as many", "few"):
        fill_one(at.states[0], key, 5 if key == "few" else 600)
    wanted = joined(at.states)
    assert dict(wanted["large list"])["many"] == list(range(600))
    assert dict(wanted["large map"])["as many"][(7, 1)] == "as many-7"
    for count in (2, 3, 1, 4):
        handles, _ = at.checkpoint()
        at.close()
        at = at.restored(handles, count)
        assert joined(at.states) == wanted
        assert all(contents(state)["value"] for state in at.states), "everybody has something"
    handles, _ = at.checkpoint()
    at.close()

    heap = heap_state()
    for handle in handles:
        heap.restore(NativeBlocks(handle, at.store, 0, GROUPS - 1, str(quick_disk / "disk")))
    assert joined([heap]) == wanted
    part = heap_state()
    for handle in handles:
        part.restore(NativeBlocks(handle, at.store, 5, 9, str(quick_disk / "disk")))
    assert 0 < len(part.table("value")) < 50
    assert not list((quick_disk / "disk").iterdir())


def test_damaged_files_are_refused(quick_disk: Path) -> None:
    one = Subtasks(quick_disk, 1)
    fill(one.states[0], range(100), "mark")
    handles, _ = one.checkpoint()
    one.close()
    path = next(blob.path for name, blob in handles[0].files if name.endswith(".sst"))
    file = quick_disk / "job" / str(path)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptSnapshotError):
        one.restored(handles, 1)
    files = tuple((name, blob) for name, blob in handles[0].files if name != "tables.json")
    with pytest.raises(CorruptSnapshotError):
        list(NativeBlocks(NativeHandle("rocksdb", files, (0, 127), False), one.store, 0, 127).tables())


@pytest.mark.parametrize("count", [1, 2])
def test_files_that_rocksdb_does_not_take_are_told_as_that(quick_disk: Path, count: int) -> None:
    """They are those that were stored: of another RocksDB, say."""
    one = Subtasks(quick_disk, 1)
    fill(one.states[0], range(100), "mark")
    (handle,), _ = one.checkpoint()
    one.close()
    files = tuple((n, Blob.of(b"?" * b.length) if n.endswith(".sst") else b) for n, b in handle.files)
    with pytest.raises(CorruptSnapshotError, match="RocksDB cannot open .* rocksdict"):
        one.restored([replace(handle, files=files)], count)


@pytest.mark.parametrize("count", [1, 2])
def test_the_kinds_of_stored_keys_are_not_judged_by_one_key(tmp_path: Path, count: int) -> None:
    """A program with keys of two kinds was refused when its first records had not that of the first row."""
    one = Subtasks(tmp_path, 1)
    (state,) = one.states
    value = state.handle(ValueStateDescriptor("value"))
    for number in range(40):
        state.scope.key = number if number % 2 else f"{number}"
        value.update(number)
    handles, _ = one.checkpoint()
    again = one.restored(handles, count)
    assert [state.restored_kinds for state in again.states] == [frozenset({"number", "str"})] * count
    one.close()
    again.close()


def test_what_was_loaded_at_once_is_merged_before_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the checkpoint behind it would store nearly everything again.  Changes are not waited for."""
    waits: list[bool] = []
    plain = database.wait_for_merges

    def watched(asked: Any) -> None:
        plain(asked)
        waits.append(bool(asked("compaction-pending") or asked("num-running-compactions")))

    monkeypatch.setattr(database, "_BULK_BYTES", 100_000)
    monkeypatch.setattr(database, "wait_for_merges", watched)
    one = Subtasks(tmp_path, 1)
    fill(one.states[0], range(10), "few")
    one.checkpoint()
    assert waits == []
    fill(one.states[0], range(5000), "old")
    one.checkpoint()
    assert waits == [False], "nothing is left to be merged"
    fill(one.states[0], range(50), "new")
    handles, _ = one.checkpoint()
    assert len(waits) == 1
    wanted = contents(one.states[0])
    one.close()
    later = one.restored(handles, 1)
    fill(later.states[0], range(50), "new")
    later.checkpoint()
    assert len(waits) == 1, "what was restored was not loaded"
    assert contents(later.states[0]) == wanted
    fill(later.states[0], range(5000, 9000), "more")
    later.checkpoint()
    assert len(waits) == 2
    later.close()


def test_merges_are_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LOOK_S", 0)
    asked: list[str] = []

    def busy_until(looks: int) -> Any:
        def answer(name: str) -> int | None:
            asked.append(name)
            return 1 if name == "num-running-compactions" and asked.count(name) <= looks else 0

        return answer

    database.wait_for_merges(busy_until(3))
    assert asked.count("num-running-compactions") == 4
    asked.clear()
    database.wait_for_merges(busy_until(1_000_000))
    assert asked.count("num-running-compactions") == database._MOST_LOOKS


def test_the_list_of_files_does_not_grow_with_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB notes each flush and merge at its end, and each checkpoint stores it whole."""
    monkeypatch.setattr(database, "_MANIFEST_BYTES", 8000, raising=False)
    one = Subtasks(tmp_path, 1)
    sizes = []
    for number in range(120):
        fill(one.states[0], [number % 7], f"{number}")
        handles, _ = one.checkpoint()
        sizes += [blob.length for name, blob in handles[0].files if name.startswith("MANIFEST")]
    assert len(sizes) == 120 and max(sizes) < 16_000
    wanted = contents(one.states[0])
    one.close()
    later = one.restored(handles, 1)
    assert contents(later.states[0]) == wanted
    later.close()


def test_the_log_of_a_database_does_not_grow_with_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOG_BYTES", 20_000, raising=False)
    one = Subtasks(tmp_path, 1)
    written = 0
    for number in range(60):
        fill(one.states[0], [number], "x")
        one.checkpoint()
        written = max(written, sum(map(size_of, (tmp_path / "disk").rglob("LOG*"))))
    one.close()
    assert 0 < written < 100_000


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # RocksDB removes an old one at any time
        return 0
