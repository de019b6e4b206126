"""The chunk store: compaction, freezing by reference, snapshots by key group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import hash_array, key_groups
from penstock.operators.join.columns import RowChunks
from penstock.state.chunks import ChunkStore, split


class Merger:
    """Sums ``n`` per key and counts what it did."""

    def __init__(self):
        self.calls = self.rows = 0

    def __call__(self, tables):
        whole = pa.concat_tables(tables)
        self.calls += 1
        self.rows += whole.num_rows
        merged = whole.group_by("k", use_threads=False).aggregate([("n", "sum")])
        return merged.rename_columns(["k", "n"])


def store(merge=None):
    return ChunkStore("s", ["k"], ["k", "n"], merge or Merger(), 128)


def rows(keys, n=1):
    return pa.table({"k": pa.array(keys, pa.int64()), "n": np.full(len(keys), n)})


def totals(chunks):
    found = {}
    for chunk in chunks:
        for row in chunk.table.to_pylist():
            found[row["k"]] = found.get(row["k"], 0) + row["n"]
    return found


def test_append_chunks_drop():
    s = store()
    s.append(10, rows([1, 2]))
    s.append(0, rows([1]))
    s.append(10, rows([1]))
    assert s.panes() == [0, 10]
    assert totals(s.chunks(10)) == {1: 2, 2: 1}
    s.drop(10)
    s.drop(10)
    assert s.panes() == [0] and s.chunks(10) == []


def test_many_small_chunks_are_merged_in_levels():
    merge = Merger()
    s = store(merge)
    for n in range(4096):
        s.append(0, rows([n]))
    assert len(s.chunks(0)) <= 16
    assert merge.rows == 4096 * 3
    assert totals(s.chunks(0)) == dict.fromkeys(range(4096), 1)


def test_large_chunks_are_merged_when_they_outweigh_the_merged_part():
    merge = Merger()
    s = store(merge)
    block = rows(np.arange(40_000))
    for _ in range(10):
        s.append(0, block)
        assert sum(chunk.table.num_rows for chunk in s.chunks(0)) <= 120_000
    assert merge.calls == 5
    s.compact(0)
    (chunk,) = s.chunks(0)
    assert chunk.table.num_rows == 40_000 and set(chunk.table.column("n").to_pylist()) == {10}
    before = merge.calls
    s.compact(0)
    assert merge.calls == before


def test_freezing_copies_references_however_many_keys_there_are():
    parts = []
    for count in (10, 50_000):
        s = store()
        tables = [rows(np.arange(count)) for _ in range(2)]
        s.append(0, tables[0])
        s.append(10, tables[1])
        before = pa.total_allocated_bytes()
        frozen = s.freeze()
        assert pa.total_allocated_bytes() == before
        assert [chunk.table for _, chunk in frozen.parts] == tables
        assert all(chunk.table is table for (_, chunk), table in zip(frozen.parts, tables, strict=True))
        parts.append(len(frozen.parts))
    assert parts == [2, 2]


def test_a_frozen_store_does_not_see_what_comes_later():
    s = store()
    for n in range(10):
        s.append(0, rows([n]))
    frozen = s.freeze()
    for n in range(100):
        s.append(0, rows([n]))
    s.compact(0)
    s.drop(0)
    whole = pa.Table.from_batches(frozen.record_batches())
    assert whole.num_rows == 10
    frozen.release()
    assert list(frozen.record_batches()) == []


def test_batches_carry_the_key_group_first_and_are_few():
    s = store()
    for n in range(200):
        s.append(n, rows([n, n + 1000]))
    s.advance(5)
    (batch,) = s.freeze().record_batches()
    assert batch.schema.names == ["__key_group", "__pane", "__fired_to", "k", "n"]
    assert batch.schema.types[0] == pa.int32()
    expected = key_groups(hash_array(batch.column("k")), 128)
    assert batch.column("__key_group").to_pylist() == expected.tolist()
    assert set(batch.column("__fired_to").to_pylist()) == {5}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_restore_by_key_group_range(parallelism):
    s = store()
    for n in range(50):
        s.append(n % 3, rows(range(n, n + 20)))
    batches = list(s.freeze().record_batches())
    found = {}
    for subtask in range(parallelism):
        part = store()
        mine = []
        for batch in batches:
            owners = batch.column("__key_group").to_numpy() * parallelism // 128
            mine.append(batch.filter(pa.array(owners == subtask)))
        part.restore(mine)
        for pane in part.panes():
            for key, total in totals(part.chunks(pane)).items():
                assert (pane, key) not in found
                found[pane, key] = total
    assert found == {(p, k): n for p in s.panes() for k, n in totals(s.chunks(p)).items()}


def test_restored_rows_are_held_apart_until_the_watermark_is_back():
    first, second = store(), store()
    first.append(0, rows([1]))
    first.advance(100)
    second.append(0, rows([2]))
    second.advance(50)
    s = store()
    s.restore([*first.freeze().record_batches(), *second.freeze().record_batches()])
    s.append(0, rows([1]))
    assert sorted(chunk.fired_to for chunk in s.chunks(0)) == [MIN_TIME, 50, 100]
    s.advance(60)
    s.compact(0)
    assert [(chunk.fired_to, totals([chunk])) for chunk in s.chunks(0)] == [
        (MIN_TIME, {2: 1, 1: 1}),
        (100, {1: 1}),
    ]
    whole = pa.Table.from_batches(s.freeze().record_batches())
    assert sorted(whole.column("__fired_to").to_pylist()) == [60, 60, 100]
    s.advance(100)
    assert {chunk.fired_to for chunk in s.chunks(0)} == {MIN_TIME}
    assert totals(s.chunks(0)) == {1: 2, 2: 1}


def test_restore_accepts_dropped_columns_and_refuses_missing_ones():
    s = store()
    s.append(0, rows([1]))
    batches = list(s.freeze().record_batches())
    fewer = ChunkStore("s", ["k"], ["k"], Merger(), 128)
    fewer.restore(batches)
    assert fewer.chunks(0)[0].table.schema.names == ["k"]
    more = ChunkStore("s", ["k"], ["k", "n", "m"], Merger(), 128)
    with pytest.raises(SnapshotError, match="'s'.*'m'"):
        more.restore(batches)


def test_conform_selects_orders_and_casts():
    s = store()
    s.append(0, s.conform(rows([1])))
    odd = pa.table({"x": [0], "n": pa.array([2], pa.int16()), "k": pa.array([3], pa.int32())})
    assert s.conform(odd).equals(rows([3], 2))
    with pytest.raises(ConfigError, match=r"'k' from int64 to string"):
        s.conform(pa.table({"k": ["a"], "n": [1]}))


@pytest.mark.parametrize("scale", [1, 10**9])
def test_split_gives_each_value_its_rows_in_order(scale):
    values = np.array([5, -3, 5, 7, -3], np.int64) * scale
    table = pa.table({"p": values, "row": range(5)})
    found = [(value, part.column("row").to_pylist()) for value, part in split(table, "p")]
    assert found == [(-3 * scale, [1, 4]), (5 * scale, [0, 2]), (7 * scale, [3])]
    assert list(split(table.slice(0, 0), "p")) == []


def test_records_with_dictionaries_of_each_batch_are_kept_and_restored() -> None:
    """Such as pandas' categories, numbered by a byte: Arrow cannot make one dictionary of many."""

    def some(number: int) -> pa.Table:
        values = pa.array([f"{number}-{place}" for place in range(100)])
        kind = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)
        return pa.table({"k": np.full(100, number), "kind": kind})

    store = RowChunks("rows", ("k",), 128)
    for number in range(20):
        store.append(0, store.conform(some(number)))
    again = RowChunks("rows", ("k",), 128)
    again.restore(list(store.freeze().record_batches()))
    again.append(0, again.conform(some(20)))
    found = pa.concat_tables([chunk.table for chunk in again.chunks(0)])
    wanted = [f"{number}-{place}" for number in range(21) for place in range(100)]
    assert sorted(found.column("kind").to_pylist()) == sorted(wanted)
