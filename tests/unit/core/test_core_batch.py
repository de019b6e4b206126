"""Batches in both layouts: whatever is done to them, times and keys stay with their records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batch import Batch, can_concat, concat
from penstock.core.ids import MIN_TIME

Plain = list[tuple[int, Any, Any]]
"""(value, time, key) of each record."""


def make(values: list[int], columnar: bool, timed: bool, keyed: bool) -> Batch:
    times = np.array([10 * value for value in values], np.int64) if timed else None
    if columnar:
        columns = pa.record_batch(
            {"v": pa.array(values, pa.int64()), "k": pa.array(map(str, values), pa.string())}
        )
        return Batch.of_columns(columns, times, ("k",) if keyed else ())
    return Batch.of_rows(list(values), times, [str(value) for value in values] if keyed else None)


def plain(batch: Batch) -> Plain:
    values = [row["v"] for row in batch.to_rows()] if batch.is_columnar else batch.to_rows()
    keyed = batch.keys is not None or bool(batch.key_columns)
    keys = batch.key_list() if keyed else [None] * len(batch)
    return list(zip(values, batch.time_list(), keys, strict=True))


def expected(values: list[int], timed: bool, keyed: bool) -> Plain:
    return [(v, 10 * v if timed else MIN_TIME, str(v) if keyed else None) for v in values]


FLAGS = st.tuples(st.booleans(), st.booleans(), st.booleans())
VALUES = st.lists(st.integers(-1000, 1000), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(VALUES, FLAGS, st.data())
def test_take_and_slice(values: list[int], flags: tuple[bool, bool, bool], data: st.DataObject) -> None:
    columnar, timed, keyed = flags
    batch = make(values, columnar, timed, keyed)
    picked = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=30))
    assert plain(batch.take(np.array(picked, np.int64))) == expected(
        [values[i] for i in picked], timed, keyed
    )
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))))
    part = batch.slice(start, stop)
    assert len(part) == stop - start
    assert plain(part) == expected(values[start:stop], timed, keyed)
    assert plain(batch) == expected(values, timed, keyed)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(VALUES, st.booleans()), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_concat(parts: list[tuple[list[int], bool]], columnar: bool, keyed: bool) -> None:
    batches = [make(values, columnar, timed, keyed) for values, timed in parts]
    whole = concat(batches)
    assert plain(whole) == [record for values, timed in parts for record in expected(values, timed, keyed)]


def test_only_alike_batches_are_joined() -> None:
    rows, columns = make([1], False, True, True), make([1], True, True, True)
    other = Batch.of_columns(pa.record_batch({"w": [1]}))
    assert can_concat(rows, make([2], False, False, True))
    assert can_concat(columns, make([2], True, False, True))
    assert not can_concat(rows, columns)
    assert not can_concat(rows, make([2], False, True, False))
    assert not can_concat(columns, make([2], True, True, False))
    assert not can_concat(columns, other)


def test_dictionary_columns_and_differing_metadata_join() -> None:
    first = pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()})
    second = pa.record_batch({"a": pa.array(["z", "y"]).dictionary_encode()})
    second = second.replace_schema_metadata({"made": "elsewhere"})
    left, right = Batch.of_columns(first), Batch.of_columns(second)
    assert can_concat(left, right)
    assert concat([left, right]).columns.column("a").to_pylist() == ["x", "y", "z", "y"]


def test_several_key_columns_are_tuples_and_no_keys_are_an_error() -> None:
    columns = pa.record_batch({"a": [1, 2], "b": ["x", "y"]})
    assert Batch.of_columns(columns, None, ("a", "b")).key_list() == [(1, "x"), (2, "y")]
    with pytest.raises(ValueError, match="key_by"):
        Batch.of_columns(columns).key_list()
    with pytest.raises(ValueError, match="key_by"):
        Batch.of_rows([1]).key_list()


@pytest.mark.parametrize(
    "dictionary_of",
    [
        lambda number: [f"{number}-{place}" for place in range(100)],
        lambda number: [str(number), None],
        lambda number: [[number], [number, 1]],
    ],
)
def test_dictionaries_that_cannot_be_united_join(dictionary_of: Any) -> None:
    """Each batch of a column of pandas' categories has its own, numbered by a byte."""
    parts, values = [], []
    for number in range(3):
        dictionary = pa.array(dictionary_of(number))
        indices = pa.array([*range(len(dictionary)), None], pa.int8())
        array = pa.DictionaryArray.from_arrays(indices, dictionary)
        parts.append(Batch.of_columns(pa.record_batch({"n": [number] * len(array), "a": array})))
        values += array.to_pylist()
    whole = concat(parts).columns
    assert whole is not None and whole.column("a").to_pylist() == values
