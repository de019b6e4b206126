"""Keys found by whole batches: as a dict would, with collisions, nulls, duplicates and growth."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.codes import codes_of, row_hashes, values_of
from penstock.state.buckets import Buckets
from penstock.state.group_keys import GroupKeys
from penstock.state.interning import Interned
from penstock.state.key_index import KeyIndex, last_of_each
from penstock.state.row_log import RowLog


@pytest.mark.parametrize("hashed", [lambda a, b: a * 31 + b, lambda a, b: a % 3, lambda a, b: 0])
def test_keys_are_found_as_in_a_dict(hashed):
    chance, index, known = random.Random(7), KeyIndex(2), {}
    for _ in range(40):
        keys = [(chance.randrange(20), chance.randrange(20)) for _ in range(chance.randrange(60))]
        first, second = (np.array([key[at] for key in keys], np.int64) for at in (0, 1))
        found = index.locate(hashed(first, second) + 0 * first, [first, second])
        for key, row in zip(keys, found.tolist(), strict=True):
            assert known.setdefault(key, row) == row
    assert sorted(known.values()) == list(range(index.count)) and index.count > 300
    unknown = np.full(3, 99, np.int64)
    assert index.find(hashed(unknown, unknown) + 0 * unknown, [unknown, unknown]).tolist() == [-1, -1, -1]


def test_keys_that_are_kept_are_found_again():
    index = KeyIndex(1, exact=True)
    keys = np.arange(5000, dtype=np.int64)
    rows = index.locate(keys * 2654435761, [keys])
    moved = index.keep(rows % 3 == 0)
    kept = keys[rows % 3 == 0]
    assert index.find(kept * 2654435761, [kept]).tolist() == moved[rows[rows % 3 == 0]].tolist()
    gone = keys[rows % 3 == 1]
    assert set(index.find(gone * 2654435761, [gone]).tolist()) == {-1}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1.5, None, float("nan"), -0.0, 0.0, float("-inf"), float("nan")]),
        (pa.string(), ["a", None, "", "b", "a", None]),
        (pa.timestamp("us"), [5, None, -7, 5, 0]),
        (pa.date32(), [5, None, -7, 5, 0]),
        (pa.uint64(), [2**64 - 1, 0, None, 2**63, 0]),
        (pa.bool_(), [True, None, False, True]),
        (pa.decimal128(10, 2), [None, 1, 2, 1]),
        (pa.int8(), [None, -128, 127, 0, None]),
    ],
    ids=str,
)
def test_values_of_all_types_are_keys(kind, values):
    array = pa.array(values, kind)
    keys = GroupKeys(pa.schema([("k", kind), ("n", pa.int64())]))
    batch = pa.record_batch({"k": array, "n": pa.array([1] * len(values))})
    hashed = batch.append_column("$key", pa.array(row_hashes(batch.columns)))
    rows = keys.locate(hashed)
    texts = [repr(0.0 if value == 0 else value) for value in array.to_pylist()]
    assert len(set(rows.tolist())) == len(set(texts)) == len(keys)
    assert len(set(zip(texts, rows.tolist(), strict=True))) == len(keys)
    back = keys.columns(rows)
    assert [repr(0.0 if value == 0 else value) for value in back["k"].to_pylist()] == texts
    assert back["k"].type == kind


def test_codes_keep_the_order():
    floats = pa.array([float("-inf"), -2.5, -1e-300, 0.0, 1e-300, 3.0, float("inf"), float("nan")])
    codes = codes_of(floats)
    assert codes.tolist() == sorted(codes.tolist())
    assert repr(values_of(codes, pa.float64()).to_pylist()) == repr(floats.to_pylist())
    words = Interned(pa.string())
    assert words.ranks(words.codes(pa.array(["b", "a", "c", "b"]))).tolist() == [1, 0, 2, 1]


def test_values_that_nobody_uses_are_forgotten():
    words = Interned(pa.string())
    codes = words.codes(pa.array([f"w{number}" for number in range(70_000)]))
    assert words.is_large
    (kept,) = words.shrink([codes[100:103]])
    assert not words.is_large
    assert words.values(kept).to_pylist() == ["w100", "w101", "w102"]
    assert words.values(words.codes(pa.array(["w101", "new"]))).to_pylist() == ["w101", "new"]


def test_lists_grow_shrink_and_move():
    chance, lists, known = random.Random(3), Buckets(), {}
    lists.grow(40)
    for round_ in range(200):
        groups = np.array([chance.randrange(40) for _ in range(chance.randrange(1, 30))])
        items = np.arange(len(groups)) + 1000 * round_
        lists.add(groups, items)
        for group, item in zip(groups.tolist(), items.tolist(), strict=True):
            known.setdefault(group, []).append(item)
        some = np.unique(groups)[:5]
        which, found = lists.of(some)
        lists.keep(some, found % 3 != 0)
        for group in some.tolist():
            known[group] = [item for item in known[group] if item % 3]
    which, found = lists.of(np.arange(40))
    seen = {group: found[which == group].tolist() for group in range(40)}
    assert seen == {group: known.get(group, []) for group in range(40)}
    lists.tidy(np.array([5, 2]))
    assert lists.of(np.array([1]))[1].tolist() == known[2]


def test_rows_are_found_by_position_wherever_they_move():
    chance, log, known = random.Random(5), RowLog(pa.schema({"n": pa.int64(), "t": pa.string()})), {}
    for _ in range(300):
        numbers = [chance.randrange(10**9) for _ in range(chance.randrange(1, 90))]
        rows = pa.record_batch({"n": numbers, "t": [str(number) for number in numbers]})
        known.update(zip(log.append(rows).tolist(), numbers, strict=True))
        dead = [position for position in known if chance.random() < 0.2]
        log.kill(np.array(dead, np.int64))
        for position in dead:
            del known[position]
        if log.is_sparse:
            _, moved = log.tidy()
            known = {int(moved[position]): number for position, number in known.items()}
    assert log.count < 14_000, "dead rows are let go"
    positions = list(known)
    chance.shuffle(positions)
    taken = log.take(np.array(positions, np.int64))
    assert taken.column("n").to_pylist() == [known[position] for position in positions]
    assert taken.column("t").to_pylist() == [str(known[position]) for position in positions]
    assert sorted(log.freeze()().column("n").to_pylist()) == sorted(known.values())


def test_the_last_of_each():
    assert last_of_each(np.array([4, 1, 4, 4, 0]), np.zeros(9, np.int64)).tolist() == [1, 3, 4]
