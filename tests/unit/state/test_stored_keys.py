"""Keys of older snapshots, and rows that belong nowhere: put in their place or refused, never lost."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_rocks_checkpoints import Subtasks

from penstock.core import keygroups
from penstock.core.errors import SnapshotError
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.core.keys import NAN
from penstock.state import files
from penstock.state.evolution import Rehashed
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.rocks import bulk, table, values

GROUPS = 128


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    seen: int = dataclasses.field(default=0, compare=False)


def older(values: Any, kinds: Any = None) -> Any:
    """Hashes that have nothing to do with today's."""
    return np.array([hash(repr(value)) & 0xFFFF_FFFF for value in values], np.uint64)


def stored(keys: list[Any], monkeypatch: pytest.MonkeyPatch | None = None) -> bytes:
    """State of these keys, by the hashes of an older version if there is a patch."""
    state = heap_state()
    for place, key in enumerate(keys):
        state.table("count").put(key, place)
        state.timers.event.register(place, key, None)
    if monkeypatch is not None:
        monkeypatch.setattr(files, "hash_values", older)
    data = b"".join(block for block, _ in write_blocks(state.freeze(), GROUPS))
    if monkeypatch is not None:
        monkeypatch.undo()
    return data


def restored(pieces: list[bytes], parallelism: int, rehashes: bool = True) -> list[KeyedState]:
    subtasks = []
    for index in range(parallelism):
        first, last = key_group_range(SubtaskIndex(index), parallelism, GROUPS)
        state = heap_state()
        for data in pieces:
            groups = GROUPS if rehashes else None
            rehashed = Rehashed(first, last, GROUPS) if rehashes else None
            state.restore(StateBlocks(data, first, last, (0, GROUPS - 1), groups), rehashed)
        subtasks.append(state)
    return subtasks


def owner(key: Any, parallelism: int) -> int:
    return keygroups.hash_value(key) % GROUPS * parallelism // GROUPS


def test_decimals_of_any_length_are_found_again() -> None:
    """They were hashed with the precision of the thread: 497 of 1,000 keys vanished."""
    with decimal.localcontext() as context:
        context.prec = 60
        keys = [decimal.Decimal(n) / 7 + decimal.Decimal("1e-45") for n in range(1000)]
        found = restored([stored(keys)], 4, rehashes=False)
    assert sum(len(state.table("count")) for state in found) == 1000
    assert all(found[owner(key, 4)].table("count").get(key) == place for place, key in enumerate(keys))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_of_an_older_version_are_where_they_are_looked_for(
    parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [pd.Timestamp(f"2024-01-01 00:00:{n:02}") for n in range(60)]
    found = restored([stored(keys, monkeypatch)], parallelism)
    assert sum(len(state.table("count")) for state in found) == len(keys)
    for place, key in enumerate(keys):
        mine = found[owner(key.to_pydatetime(), parallelism)]
        assert mine.table("count").get(key.to_pydatetime()) == place
        assert (place, key, None) in mine.timers.event.table


def test_values_of_keys_that_were_held_apart_are_not_dropped() -> None:
    apart = [stored([Place("a", 1)]), stored([Place("a", 2)])]
    with pytest.raises(SnapshotError, match="1 values too many.*state processor"):
        restored(apart, 1)
    with pytest.raises(SnapshotError, match="values too many"):
        restored([stored([(1, float("nan")), (1, float("nan"))])], 1, rehashes=False)


def test_a_nan_of_an_older_version_is_the_nan_of_today() -> None:
    for key in (float("nan"), (1, float("nan"))):
        (state,) = restored([stored([key])], 1)
        assert state.table("count").get(NAN if isinstance(key, float) else (1, NAN)) == 0


def test_rows_outside_of_their_piece_are_counted_and_refused() -> None:
    data = stored(list(range(100)))
    inside = StateBlocks(data, 0, 63, (0, GROUPS - 1))
    heap_state().restore(inside)
    with pytest.raises(SnapshotError, match=r"\d+ rows of a piece of keyed state.*no subtask"):
        heap_state().restore(StateBlocks(data, 0, 63, (0, 63)))


def test_a_key_that_changed_after_it_came_is_not_written_elsewhere() -> None:
    state = heap_state()
    state.table("count").put("a", 1)
    group = keygroups.hash_value("a") % GROUPS
    assert list(write_blocks(state.freeze(), GROUPS, (group, group)))
    with pytest.raises(SnapshotError, match="1 keys that belong to another subtask, such as 'a'"):
        list(write_blocks(state.freeze(), GROUPS, (group + 1, GROUPS)))


def test_rows_of_rocksdb_outside_of_their_piece_are_refused(tmp_path: Path) -> None:
    one = Subtasks(tmp_path, 1)
    for key in range(100):
        one.states[0].table("count").put(key, key)
    ((handle,), _) = one.checkpoint()
    wrong = dataclasses.replace(handle, key_groups=(0, 63))
    with pytest.raises(SnapshotError, match="rows of a piece of keyed state"):
        one.restored([wrong], 3)
    one.close()


def pickled_entry(entry: object, raw: bytes) -> bytes:
    """As versions before the data format wrote it."""
    data = pickle.dumps(entry, 5)
    return struct.pack("<cI", b"K", len(data)) + data + raw


@pytest.mark.parametrize("count", [1, 3])
def test_older_rows_of_rocksdb(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parallelism 1 they come to where they are looked for; with more they may be another subtask's."""
    keys = [dt.datetime(2024, 1, 1, 0, 0, n, tzinfo=dt.UTC) for n in range(40)]
    monkeypatch.setattr(bulk, "hash_values", older)
    monkeypatch.setattr(table, "hash_value", lambda key: int(older([key])[0]))
    monkeypatch.setattr(values, "with_entry", pickled_entry)
    before = Subtasks(tmp_path, 1)
    for key in keys:
        before.states[0].table("count").put(key, key.second)
    handles, _ = before.checkpoint()
    assert handles[0].pickled
    monkeypatch.undo()
    after = Subtasks(tmp_path, count)
    first, last = after.ranges[0]
    restore = after.states[0].restore_files
    if count == 1:
        restore(handles, before.store, first, last, True, Rehashed(first, last, GROUPS))
        assert [after.states[0].table("count").get(key) for key in keys] == list(range(40))
    else:
        with pytest.raises(SnapshotError, match="with parallelism 1 once"):
            restore(handles, before.store, first, last, True, Rehashed(first, last, GROUPS))
    before.close()
    after.close()
