"""Whoever has not vouched for a snapshot runs none of its code: keys, values, timers, all the same."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import Blob, KeyedHandle, KeyedPiece, NativeHandle, OperatorSnapshot
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry
from penstock.snapshot.repository import write_savepoint
from penstock.snapshot.signing import KEY_VARIABLE
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import FrozenFiles
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.state.files import write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.state_processor.blocks import outlines
from penstock.storage.own_files import write_file

GROUPS = 128
EXPLODED: list[int] = []


def explode(number: int) -> Bomb:
    """What unpickling a bomb calls."""
    EXPLODED.append(number)
    return Bomb(number)


@dataclass(frozen=True)
class Bomb:
    """An object that shows when it was unpickled."""

    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, (self.number,)


def fill(state: KeyedState) -> None:
    """Bombs in every place that state has, and one state without any."""
    plain = state.handle(ValueStateDescriptor("plain"))
    by_bomb = state.handle(ValueStateDescriptor("by bomb"))
    bombs = state.handle(ValueStateDescriptor("bombs"))
    windowed = state.handle(ValueStateDescriptor("windowed"), namespaced=True)
    large = state.handle(MapStateDescriptor("large map"))
    grown = state.handle(ListStateDescriptor("large list"))
    for number in range(5):
        state.scope.key, state.scope.namespace = number, Bomb(number)
        plain.update(number)
        bombs.update(Bomb(number))
        windowed.update(number)
        state.timers.event.register(1000 + number, number, Bomb(number))
        state.timers.processing.register(1000 + number, Bomb(number), None)
        state.scope.key = Bomb(number)
        by_bomb.update(number)
    state.scope.key = "one"
    for number in range(300):
        large.put(number, Bomb(number))
        grown.add(Bomb(number))


def savepoint(place: Path, piece: KeyedPiece) -> str:
    """One operator with this keyed state; its operator state and its enumerator are bombs too."""
    bomb = Blob.of(pickle.dumps({"list": ("split", (Bomb(1),))}))
    state = OperatorSnapshot(OperatorId("op"), (piece,), bomb)
    entry = OperatorEntry(
        OperatorId("op"), "op", "op", VertexId("v"), 1, GROUPS, (SubtaskEntry(SubtaskIndex(0), state, False),)
    )
    manifest = Manifest(
        "job",
        "job",
        Epoch(1),
        Generation(1),
        SnapshotKind.SAVEPOINT,
        0,
        (entry,),
        {OperatorId("op"): Blob.of(pickle.dumps(Bomb(2)))},
        (),
        "0.1",
    )
    store = SnapshotStore(str(place))
    write_savepoint(store, manifest)
    EXPLODED.clear()
    return store.url


def on_heap(place: Path) -> str:
    state = heap_state()
    fill(state)
    data = b"".join(block for block, _ in write_blocks(state.freeze(), GROUPS))
    return savepoint(place, KeyedHandle(Blob.of(data), (0, GROUPS - 1), True))


def in_rocksdb(place: Path) -> str:
    state = KeyedState(RocksBackend(RocksSettings(str(place / "disk"), memory_bytes=8 << 20), GROUPS))
    fill(state)
    (frozen,) = state.checkpoint()
    assert isinstance(frozen, FrozenFiles)
    files, _ = frozen.upload(SnapshotStore(str(place)))
    files |= {name: Blob.of(data) for name, data in frozen.small_files().items()}
    state.close()
    return savepoint(place, NativeHandle("rocksdb", tuple(sorted(files.items())), (0, GROUPS - 1), True))


def lying(place: Path) -> str:
    """Blocks whose headers deny that anything in them is pickled."""
    state = heap_state()
    fill(state)
    data = b"".join(block for block, _ in write_blocks(state.freeze(), GROUPS))
    forged = b"".join(map(denying, blocks_in(data)))
    return savepoint(place, KeyedHandle(Blob.of(forged), (0, GROUPS - 1), False))


def blocks_in(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from("<I", data, position)
        head = data[position + 4 : position + 4 + size]
        (length,) = struct.unpack_from("<Q", data, position + 4 + size)
        start = position + 12 + size
        yield head, data[start : start + length]
        position = start + length


def denying(block: tuple[bytes, bytes]) -> bytes:
    head, body = block
    head = head.replace(b'"pickled"', b'"unknown"')
    return struct.pack("<I", len(head)) + head + struct.pack("<Q", len(body)) + body


@pytest.mark.parametrize("make", [on_heap, in_rocksdb])
def test_nothing_is_unpickled_without_trust(make: Callable[[Path], str], tmp_path: Path) -> None:
    where = make(tmp_path / "s")
    snapshot = open_snapshot(where)
    states = [row["state"] for row in snapshot.states().to_pylist()]
    assert {"plain", "by bomb", "bombs", "windowed", "large map", "large list"} <= set(states)
    assert snapshot.operators().num_rows == 1 and snapshot.sizes().num_rows == 1
    asked = [lambda name=name: snapshot.read("op", name) for name in (*states, "list", "_enumerator")]
    asked += [lambda name=name: snapshot.keys("op", name) for name in states]
    asked += [lambda: snapshot.timers("op"), lambda: snapshot.keys("op")]
    writer = SavepointWriter.from_existing(where)
    writer.delete_keys("op", [1]).change("op", "bombs", lambda key, value: value)
    asked += [lambda: SavepointWriter.from_existing(where).write(str(tmp_path / "copy"))]
    asked += [lambda: writer.write(str(tmp_path / "changed"))]
    refused = 0
    for ask in asked:
        try:
            ask()
        except SnapshotError:
            refused += 1
    assert EXPLODED == []
    assert refused >= 8, "most of it cannot be had without unpickling"
    assert snapshot.read("op", "plain")["value"].to_pylist().count(3) == 1


def test_headers_that_deny_it_are_refused(tmp_path: Path) -> None:
    snapshot = open_snapshot(lying(tmp_path / "s"))
    for ask in (snapshot.states, snapshot.sizes, lambda: snapshot.read("op", "bombs")):
        with pytest.raises(CorruptSnapshotError, match="no column"):
            ask()
    assert EXPLODED == []


@pytest.mark.parametrize("make", [on_heap, in_rocksdb])
def test_with_trust_it_is(make: Callable[[Path], str], tmp_path: Path) -> None:
    snapshot = open_snapshot(make(tmp_path / "s"), trusted=True)
    assert snapshot.read("op", "bombs").num_rows == 5
    assert set(EXPLODED) >= {0, 1, 2, 3, 4}


def test_a_manifest_may_not_claim_that_files_are_of_another_kind(tmp_path: Path) -> None:
    where = on_heap(tmp_path / "s")
    found = open_snapshot(where)
    handle = found.manifest.operators[0].subtasks[0].state.keyed[0]
    assert isinstance(handle, KeyedHandle)
    native = NativeHandle("rocksdb", (("tables.json", handle.blob),), handle.key_groups, False)
    subtask = found.manifest.operators[0].subtasks[0]
    state = replace(subtask.state, keyed=(native,))
    entry = replace(found.manifest.operators[0], subtasks=(replace(subtask, state=state),))
    write_savepoint(SnapshotStore(str(tmp_path / "t")), replace(found.manifest, operators=(entry,)))
    with pytest.raises(SnapshotError):
        open_snapshot(str(tmp_path / "t")).states()
    assert EXPLODED == []


def test_with_a_key_not_even_the_head_of_a_changed_file_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = heap_state()
    state.scope.key = 1
    state.handle(ValueStateDescriptor("visits")).update(1)
    data = b"".join(block for block, _ in write_blocks(state.freeze(), GROUPS))
    store = SnapshotStore(str(tmp_path))
    handle = KeyedHandle(store.write_file("x.state", [data]), (0, GROUPS - 1), True)
    (tmp_path / "x.state").write_bytes(data.replace(b"visits", b"visit5"))
    assert [outline.name for outline in outlines(store, handle)] == ["visit5"]
    write_file(tmp_path / "key", b"k" * 32)
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    with pytest.raises(CorruptSnapshotError, match=r"x\.state is damaged"):
        list(outlines(store, handle))
