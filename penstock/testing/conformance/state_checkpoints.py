"""What checkpoints promise, be they blocks or files of the backend's own: part of the state suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core.handles import Blob, KeyedHandle, KeyedPiece, NativeHandle
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import hash_values, key_group_range, key_groups
from penstock.core.typeinfo import Types
from penstock.snapshot.storage import MemoryStore
from penstock.state.backend import FileBackend, FrozenFiles, FrozenPart
from penstock.state.descriptors import ValueStateDescriptor
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.keyed import KeyedState
from penstock.testing.conformance.state_base import EMPTY, Handles, New, StateBase, filled
from penstock.testing.conformance.state_timers import fired
from penstock.testing.operator_run import KEY_GROUPS

_ALL = (0, KEY_GROUPS - 1)
_KEYS = range(60)


class CheckpointTests(StateBase):
    """A checkpoint brings everything back, whole or divided, while the state goes on."""

    def test_checkpoints_are_pictures_of_one_moment(self, tmp_path: Path) -> None:
        """What is done after a checkpoint was taken, and before it is written, is in the next one only."""
        with self.backends(tmp_path) as new:
            store, handles = MemoryStore(), _filled(new())
            first = handles.state.checkpoint()
            handles.at(0).fill("later")
            handles.at(1).value.clear()
            handles.state.timers.event.register(9, "later", None)
            pieces = stored(first, store)
            again = stored(handles.state.checkpoint(), store)
            before, after = (Handles(restored(new, found, store, _ALL)) for found in (pieces, again))
            assert [before.at(key).read() for key in _KEYS] == [filled("mine")] * len(_KEYS)
            assert after.at(0).value.value() == "later" and after.at(1).value.value() is None
            assert after.at(2).read() == filled("mine")
            assert fired(before.state.timers.event) == [(5, 1, None)]
            assert fired(after.state.timers.event) == [(5, 1, None), (9, "later", None)]

    def test_checkpoints_are_divided_and_joined(self, tmp_path: Path) -> None:
        """Two subtasks become three, and one again, and go on from there."""
        with self.backends(tmp_path) as new:
            store = MemoryStore()
            pieces = stored(_filled(new()).state.checkpoint(), store)
            for count in (2, 3, 1):
                ranges = [key_group_range(SubtaskIndex(n), count, KEY_GROUPS) for n in range(count)]
                parts = [Handles(restored(new, pieces, store, groups)) for groups in ranges]
                pieces = []
                for part, groups in zip(parts, ranges, strict=True):
                    mine = _in_range(groups)
                    for key in _KEYS:
                        assert part.at(key).read() == (filled("mine") if key in mine else EMPTY)
                    pieces += stored(part.state.checkpoint(), store, groups)
            timers = restored(new, pieces, store, _ALL).timers
            assert fired(timers.event) == [(5, 1, None)] and fired(timers.processing) == [(7, 1, "w")]

    def test_checkpoints_say_what_states_are(self, tmp_path: Path) -> None:
        """Subtasks may have come to different types of one state: each value is brought to the new one."""
        with self.backends(tmp_path) as new:
            store = MemoryStore()
            old, changed = (0, KEY_GROUPS // 2 - 1), (KEY_GROUPS // 2, KEY_GROUPS - 1)
            pieces: list[KeyedPiece] = []
            for groups, declared in ((old, Types.INT()), (changed, Types.LONG())):
                state = new()
                value = state.handle(ValueStateDescriptor("value", declared))
                for key in _in_range(groups):
                    state.scope.key = key
                    value.update(key)
                pieces += stored(state.checkpoint(), store, groups)
            state = restored(new, pieces, store, _ALL)
            value = state.handle(ValueStateDescriptor("value", Types.LONG()))
            for key in _KEYS:
                state.scope.key = key
                assert value.value() == key
            unasked = restored(new, pieces, store, _ALL)
            moved = restored(new, stored(unasked.checkpoint(), store), store, _ALL)
            value = moved.handle(ValueStateDescriptor("value", Types.LONG()))
            moved.scope.key = _in_range(old)[0]
            assert value.value() == _in_range(old)[0], "state that was not asked for goes on as it came"

    def test_files_are_read_by_other_backends_and_stored_once(self, tmp_path: Path) -> None:
        """A backend with files of its own: what did not change is not written again, and blocks show all."""
        with self.backends(tmp_path) as new:
            store, handles = MemoryStore(), _filled(new())
            backend, taken = handles.state.backend, handles.state.checkpoint()
            has_files = any(isinstance(part, FrozenFiles) for part in taken)
            (handle,) = stored(taken, store)
            assert isinstance(handle, NativeHandle) is has_files
            if not isinstance(handle, NativeHandle):
                return
            assert isinstance(backend, FileBackend) and handle.backend == backend.name
            handles.at("new").value.update(1)
            files = handles.state.checkpoint()[0]
            assert isinstance(files, FrozenFiles)
            kept = {blob.path for _, blob in handle.files if blob.path}
            shared, written = files.upload(store)
            assert kept and kept <= {blob.path for blob in shared.values()}
            assert written < sum(blob.length for blob in shared.values())
            files.release()
            state = new()
            state.restore(backend.read_files(handle, store, *_ALL))
            assert [Handles(state).at(key).read() for key in _KEYS] == [filled("mine")] * len(_KEYS)
            first, last = 10, 40
            part = new()
            part.restore(backend.read_files(handle, store, first, last))
            inside = [key for key in _KEYS if key in _in_range((first, last))]
            assert sorted(part.table("value").entries()) == inside


def _filled(state: KeyedState) -> Handles:
    handles = Handles(state)
    for key in _KEYS:
        handles.at(key).fill("mine")
    state.timers.event.register(5, 1, None)
    state.timers.processing.register(7, 1, "w")
    return handles


def _in_range(groups: tuple[int, int]) -> list[int]:
    found = key_groups(hash_values(list(_KEYS)), KEY_GROUPS).tolist()
    return [key for key, group in zip(_KEYS, found, strict=True) if groups[0] <= group <= groups[1]]


def stored(
    frozen: Sequence[FrozenPart], store: MemoryStore, groups: tuple[int, int] = _ALL
) -> list[KeyedPiece]:
    """A checkpoint as the snapshot writer stores it."""
    pieces: list[KeyedPiece] = []
    blocks: list[Any] = []
    for part in frozen:
        if isinstance(part, FrozenFiles):
            shared, _ = part.upload(store)
            small = {name: Blob.of(data) for name, data in part.small_files().items()}
            files = tuple(sorted({**shared, **small}.items()))
            pieces.append(NativeHandle(part.backend, files, groups, part.pickled))
        else:
            blocks.append(part)
    written = list(write_blocks(blocks, KEY_GROUPS))
    if written:
        blob = Blob.of(b"".join(data for data, _ in written))
        pieces.append(KeyedHandle(blob, groups, any(pickled for _, pickled in written)))
    for part in frozen:
        part.release()
    return pieces


def restored(
    new: New, pieces: Sequence[KeyedPiece], store: MemoryStore, groups: tuple[int, int]
) -> KeyedState:
    """State with the entries of ``groups``, as a slot restores it."""
    state = new()
    mine = [piece for piece in pieces if piece.overlaps(*groups)]
    files = [piece for piece in mine if isinstance(piece, NativeHandle)]
    if files:
        state.restore_files(files, store, *groups, own_files=True)
    for piece in mine:
        if isinstance(piece, KeyedHandle):
            state.restore(StateBlocks(store.read_blob(piece.blob), *groups, piece.key_groups))
    return state
