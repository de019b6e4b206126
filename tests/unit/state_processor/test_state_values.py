"""Python values as Arrow, and back."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.row import Row
from penstock.operators.window.windows import CountWindow, GlobalWindow, TimeWindow
from penstock.state_processor.values import MisfitError, json_text, settled, to_arrow, to_python, type_of


@dataclass(frozen=True)
class Point:
    x: int
    y: float


def through(values):
    """The values there and back."""
    return to_python(to_arrow(values, settled(type_of(values))))


LEAVES = [
    st.integers(-(2**63), 2**63 - 1),
    st.text(),
    st.binary(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.datetimes(),
    st.dates(),
]


def nested(leaf):
    kinds = [
        leaf,
        st.lists(leaf),
        st.dictionaries(st.text(), leaf),
        st.tuples(leaf, st.integers(0, 9)),
        st.dictionaries(st.integers(0, 99), st.lists(st.tuples(leaf, leaf))),
    ]
    return st.one_of([st.lists(kind, min_size=1) for kind in kinds])


@settings(max_examples=60, deadline=None)
@given(st.one_of([nested(leaf) for leaf in LEAVES]))
def test_values_come_back_as_they_were(values):
    assert through(values) == values


def test_rows_windows_and_dataclasses_are_structs():
    assert type_of([TimeWindow(1, 2)]) == pa.struct([("start", pa.int64()), ("end", pa.int64())])
    assert type_of([CountWindow(1)]) == pa.struct([("id", pa.int64())])
    assert through([Row(name="a", size=1)]) == [Row(name="a", size=1)]
    assert through([Point(1, 2.0)]) == [Row(x=1, y=2.0)]
    assert through([None, {"a": None}, {}, {"a": 1}]) == [None, {"a": None}, {}, {"a": 1}]
    assert through([np.int64(4), 5]) == [4, 5]


@pytest.mark.parametrize(
    "values",
    [[1, "one"], [2**64], [object()], [(1, 2), (1,)], [Decimal("1.5")], [GlobalWindow()], [{1: 2}, [1]]],
    ids=lambda values: type(values[0]).__name__,
)
def test_what_has_no_type_in_common(values):
    with pytest.raises(MisfitError):
        type_of(values)
    assert all(json.loads(json_text(value)) is not None for value in values)


def test_a_value_that_is_not_what_samples_were():
    with pytest.raises(MisfitError):
        to_arrow([1, "one"], pa.int64())
    with pytest.raises(MisfitError):
        to_arrow([TimeWindow(1, 2), (1, 2)], type_of([TimeWindow(1, 2)]))


def test_text():
    assert json_text({1: (1, 2), "b": b"\x01"}) == '{"1": [1, 2], "b": "01"}'
    assert json_text([TimeWindow(1, 2), dt.date(2026, 1, 1)]) == '[{"start": 1, "end": 2}, "2026-01-01"]'
