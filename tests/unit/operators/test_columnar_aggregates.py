"""Aggregates, their partials, and the grouped sums beneath them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.operators.columnar.aggregates import Avg, Count, Max, Min, Sum
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import AggregatePlan, grouped


def aggregated(plan, *batches):
    partials = [pa.table(plan.raw_partials(pa.RecordBatch.from_pydict(batch))) for batch in batches]
    rows = plan.finish(plan.merge(partials), 0, 10).to_pylist()
    return [{name: row[name] for name in row if not name.startswith("window")} for row in rows]


def test_default_names():
    plan = AggregatePlan(["k"], [Count(), Sum("v"), Min("v"), Max("v"), Avg("v")])
    (row,) = aggregated(plan, {"k": [1, 1], "v": [2, 4]})
    assert row == {"k": 1, "count": 2, "sum_v": 6, "min_v": 2, "max_v": 4, "avg_v": 3.0}


def test_aggregates_of_one_column_share_partials():
    plan = AggregatePlan(["k"], [Sum("v", "a"), Avg("v", "b"), Sum("v", "c")])
    assert [partial.name for partial in plan.partials] == ["__sum:v", "__count:v"]


def test_nulls_are_skipped_and_only_nulls_give_null():
    plan = AggregatePlan(["k"], [Count("c"), Sum("v", "s"), Min("v", "lo"), Max("v", "hi"), Avg("v", "m")])
    values = pa.array([None, 3, None, None], pa.int64())
    rows = aggregated(plan, {"k": ["a", "a", "b", "b"], "v": values})
    assert rows == [
        {"k": "a", "c": 2, "s": 3, "lo": 3, "hi": 3, "m": 3.0},
        {"k": "b", "c": 2, "s": None, "lo": None, "hi": None, "m": None},
    ]


def test_min_and_max_take_anything_ordered():
    plan = AggregatePlan(["k"], [Min("s"), Max("d")])
    days = [dt.date(2024, 1, 1), dt.date(2025, 1, 1)]
    (row,) = aggregated(plan, {"k": [1, 1], "s": ["b", "a"], "d": days})
    assert row == {"k": 1, "min_s": "a", "max_d": dt.date(2025, 1, 1)}


def test_dictionary_columns_are_decoded():
    plan = AggregatePlan(["k"], [Sum("v", "s")])
    keys = pa.array(["x", "y", "x"]).dictionary_encode()
    values = pa.array([1, 2, 3]).dictionary_encode()
    assert aggregated(plan, {"k": keys, "v": values}) == [{"k": "x", "s": 4}, {"k": "y", "s": 2}]


def test_zero_and_minus_zero_are_one_key():
    (row,) = aggregated(AggregatePlan(["k"], [Count("c")]), {"k": [0.0, -0.0]})
    assert row["c"] == 2


def test_integer_overflow_is_an_error_and_not_a_wrong_number():
    plan = AggregatePlan(["k"], [Sum("v", "s")])
    assert aggregated(plan, {"k": [1, 1], "v": [2**62, 2**62 - 1]}) == [{"k": 1, "s": 2**63 - 1}]
    with pytest.raises(ConfigError, match="'sum:v' overflows int64"):
        aggregated(plan, {"k": [1, 1], "v": [2**62, 2**62]})
    with pytest.raises(ConfigError, match="does not fit int64"):
        aggregated(plan, {"k": [1], "v": pa.array([2**63], pa.uint64())})


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), min_size=1)
)
def test_grouped_sums_are_exact_or_refused(pairs):
    table = pa.table({"k": [k for k, _ in pairs], "v": pa.array([v for _, v in pairs], pa.int64())})
    expected = {}
    for key, value in pairs:
        seen = expected.setdefault(key, [])
        seen += [] if value is None else [value]
    sums = {key: sum(seen) if seen else None for key, seen in expected.items()}
    if all(total is None or -(2**63) <= total < 2**63 for total in sums.values()):
        rows = grouped(table, ["k"], [("v", "sum")]).to_pylist()
        assert {row["k"]: row["v"] for row in rows} == sums
    else:
        with pytest.raises(ConfigError, match="overflows"):
            grouped(table, ["k"], [("v", "sum")])


def test_what_cannot_be_asked_for():
    with pytest.raises(ConfigError, match="at least one aggregate"):
        AggregatePlan(["k"], [])
    with pytest.raises(ConfigError, match="several columns called c"):
        AggregatePlan(["k"], [Count("c"), Sum("v", "c")])
    with pytest.raises(ConfigError, match="several columns called window_end"):
        AggregatePlan(["k"], [Count("window_end")])
    with pytest.raises(ConfigError, match="underscores"):
        AggregatePlan(["__pane"], [Count("c")])
    with pytest.raises(ConfigError, match="column 'v' of type string cannot be summed"):
        aggregated(AggregatePlan(["k"], [Avg("v")]), {"k": [1], "v": ["x"]})


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(1, 30),
    slide=st.integers(1, 30),
    offset=st.integers(-29, 29),
    times=st.lists(st.integers(-100, 100), min_size=1, max_size=8),
    after=st.integers(-150, 100),
    length=st.integers(0, 200),
)
def test_panes_are_the_windows_cut_up(size, slide, offset, times, after, length):
    if abs(offset) >= slide:
        with pytest.raises(ConfigError, match="offset"):
            Panes(size, slide, offset)
        return
    panes = Panes(size, slide, offset)
    starts = [s for s in range(-200, 200) if (s - offset) % slide == 0]
    for time, pane in zip(times, panes.floor(np.array(times)).tolist(), strict=True):
        assert pane == panes.pane_of(time)
        assert pane <= time < pane + panes.width if panes.windows_of(time) else pane == time
        assert list(panes.windows_of(pane)) == [s for s in starts if s <= time < s + size]
        assert all(pane in panes.of_window(s) for s in panes.windows_of(pane))
    held = sorted({panes.pane_of(t) for t in times if panes.windows_of(panes.pane_of(t))})
    due = [
        s
        for s in starts
        if after < s + size - 1 <= after + length and any(s <= pane < s + size for pane in held)
    ]
    assert list(panes.due(held, after, after + length)) == due
