"""Vectorised sessions against the row operator, batch by batch, and what only they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_rig import context
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, OperatorHarness
from window_samples import dropped

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.row import Row
from penstock.operators.columnar.aggregates import Avg, Count, Max, Min, Sum
from penstock.operators.columnar.row_by_row import RowAggregate, RowResults
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.spans import find_runs, key_codes, rescued, span_ends
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.sessions import EventTimeSessionWindows
from penstock.operators.window.window_state import AggregateContents
from penstock.state.heap.backend import heap_state

GAP = 5
AGGREGATES = (Count("c"), Sum("n"), Min("n"), Max("n"), Avg("n"))


def by_row(lateness: int = 0, aggregates: Any = AGGREGATES, keys: Any = ("k",)) -> WindowOperator:
    contents = AggregateContents(RowAggregate(aggregates))
    results = RowResults(keys, aggregates)
    options = {"allowed_lateness_ms": lateness, "late_tag": "late"}
    return WindowOperator(EventTimeSessionWindows(GAP), contents, results, **options)


def vectorised(
    lateness: int = 0, aggregates: Any = AGGREGATES, keys: Any = ("k",)
) -> ColumnarSessionOperator:
    return ColumnarSessionOperator(keys, GAP, aggregates, allowed_lateness=lateness, late_tag="late")


record = st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-9, 9)), st.integers(-30, 40))
steps = st.lists(st.one_of(st.lists(record, min_size=1, max_size=90), st.integers(0, 12)), max_size=15)


def sent(harness: OperatorHarness, step: Any, watermark: int) -> tuple[list[Any], list[Any]]:
    if isinstance(step, list):
        harness.send(*((Row(k=key, n=number), time) for key, number, time in step))
    else:
        harness.watermark(watermark)
    results = [(tuple(value), time) for value, time in harness.take()]
    late = [(tuple(value), time) for value, time in harness.take_side("late")]
    return sorted(results, key=repr), late


@settings(max_examples=150, deadline=None)
@given(steps)
def test_batches_give_what_single_records_give(script: list[Any]) -> None:
    rows, columns = OperatorHarness(by_row()), OperatorHarness(vectorised())
    watermark = -35
    for step in [*script, MAX_TIME + 50]:
        watermark += 0 if isinstance(step, list) else step
        assert sent(columns, step, min(watermark, MAX_TIME)) == sent(rows, step, min(watermark, MAX_TIME))
    assert len(columns.operator._store) == 0  # type: ignore[attr-defined]


@settings(max_examples=100, deadline=None)
@given(steps, st.sampled_from([1, 4, 20]))
def test_late_records_fire_once_a_batch_with_what_the_last_of_them_gives(
    script: list[Any], lateness: int
) -> None:
    rows, columns = OperatorHarness(by_row(lateness)), OperatorHarness(vectorised(lateness))
    watermark = -35
    for step in [*script, MAX_TIME + 50]:
        watermark += 0 if isinstance(step, list) else step
        results, late = sent(columns, step, min(watermark, MAX_TIME))
        wanted, wanted_late = sent(rows, step, min(watermark, MAX_TIME))
        assert late == wanted_late
        assert len({(value[0], value[1]) for value, _ in results}) == len(results)
        last = {(value[0], value[1], value[2]): (value, time) for value, time in by_count(wanted)}
        if isinstance(step, list):
            assert [result for result in results if last.get(result[0][:3]) != result] == []
        else:
            assert results == wanted
    assert len(columns.operator._store) == 0  # type: ignore[attr-defined]


def by_count(results: list[Any]) -> list[Any]:
    return sorted(results, key=lambda result: result[0][3])


def test_a_record_saved_by_a_later_one_of_its_batch_is_late_all_the_same() -> None:
    for make in (by_row, vectorised):
        harness = OperatorHarness(make())
        harness.watermark(10)
        harness.send((Row(k="a", n=1), 4), (Row(k="a", n=2), 8), (Row(k="a", n=3), 5), (Row(k="a", n=4), 2))
        assert [tuple(value) for value, _ in harness.take_side("late")] == [("a", 1)]
        harness.watermark(MAX_TIME)
        assert [tuple(value)[:4] for value, _ in harness.take()] == [("a", 2, 13, 3)]


def test_without_a_side_output_late_records_are_counted() -> None:
    harness = OperatorHarness(ColumnarSessionOperator(("k",), GAP, AGGREGATES))
    harness.watermark(100)
    harness.send((Row(k="a", n=1), 4), (Row(k="a", n=2), 200))
    assert dropped(harness) == 1


def test_records_without_a_time_meet_in_one_session_before_all_time() -> None:
    for make in (by_row, vectorised):
        harness = OperatorHarness(make(aggregates=(Count("c"),)))
        harness.operator.process(Batch.of_rows([Row(k="a"), Row(k="a")], None, ["a", "a"]))
        harness.watermark(0)
        assert [tuple(value) for value in harness.take_values()] == [("a", MIN_TIME, MIN_TIME + GAP, 2)]


def test_several_key_columns_with_nulls() -> None:
    keys, aggregates = ("k", "m"), (Count("c"), Sum("f", "s"))
    out = Collected()
    operator = vectorised(aggregates=aggregates, keys=keys)
    operator.open(context(out))
    columns = pa.record_batch(
        {
            "k": pa.array(["a", "a", "b", "a", "a"]),
            "m": pa.array([1, None, 1, 1, None], pa.int32()),
            "f": pa.array([0.5, 1.0, 2.0, 4.0, None]),
        }
    )
    times = np.array([0, 1, 2, 5, 20], np.int64)
    operator.process(Batch.of_columns(columns, times, keys))
    operator.on_watermark(MAX_TIME)
    assert [tuple(value) for value, _ in out.main] == [
        ("a", None, 1, 6, 1, 1.0),
        ("b", 1, 2, 7, 1, 2.0),
        ("a", 1, 0, 10, 2, 4.5),
        ("a", None, 20, 25, 1, None),
    ]


def test_sessions_of_a_row_by_row_snapshot_go_on_in_columns() -> None:
    old = OperatorHarness(by_row(lateness=10))
    old.send((Row(k="a", n=1), 0), (Row(k="a", n=2), 4), (Row(k="b", n=None), 2), (Row(k="a", n=7), 30))
    old.watermark(12)
    assert sorted(tuple(value)[:4] for value in old.take_values()) == [("a", 0, 9, 2), ("b", 2, 7, 1)]
    new = OperatorHarness(vectorised(lateness=10), restored=old.snapshot())
    assert new.keyed.table("_timers/event", new.keyed.timers.event.table.shape).entries() == []
    new.watermark(12)
    assert new.take() == []  # fired before
    new.send((Row(k="a", n=5), 8), (Row(k="a", n=1), 33))
    assert [tuple(value)[:5] for value in new.take_values()] == [("a", 0, 13, 3, 8)]
    new.watermark(MAX_TIME)
    assert [tuple(value)[:5] for value in new.take_values()] == [("a", 30, 38, 2, 8)]


def frozen_batches(operator: ColumnarSessionOperator) -> list[pa.RecordBatch]:
    return [batch for part in operator.ctx.keyed.freeze() for batch in part.record_batches()]  # type: ignore[union-attr]


def opened_with(batches: list[pa.RecordBatch], aggregates: Any = AGGREGATES) -> ColumnarSessionOperator:
    keyed = heap_state()
    keyed.restore_chunks("session-partials", batches)
    operator = vectorised(aggregates=aggregates)
    operator.open(context(Collected(), keyed))
    return operator


def test_a_snapshot_of_other_aggregates_is_refused() -> None:
    harness = OperatorHarness(vectorised(aggregates=(Count("c"),)))
    harness.send((Row(k="a", n=1), 0))
    batches = frozen_batches(harness.operator)  # type: ignore[arg-type]
    assert len(opened_with(batches, (Count("other"),))._store) == 1
    with pytest.raises(SnapshotError, match="__sum:n"):
        opened_with(batches)


def test_a_column_of_nulls_takes_the_type_of_the_first_values() -> None:
    harness = OperatorHarness(vectorised(aggregates=(Max("n"),)))
    harness.send((Row(k="a", n=None), 0))
    harness.send((Row(k="a", n="x"), 1))
    harness.watermark(MAX_TIME)
    assert [tuple(value) for value in harness.take_values()] == [("a", 0, 6, "x")]


def test_state_stays_small_while_sessions_grow() -> None:
    harness = OperatorHarness(vectorised())
    for turn in range(200):
        harness.send(*((Row(k=key, n=1), 4 * turn) for key in "abc"))
        harness.watermark(4 * turn - 8)
    assert len(harness.operator._store) < 30  # type: ignore[attr-defined]
    harness.watermark(MAX_TIME)
    assert sorted(tuple(value)[:4] for value in harness.take_values()) == [
        (key, 0, 801, 200) for key in "abc"
    ]


def test_a_negative_lateness_is_refused() -> None:
    with pytest.raises(ConfigError, match="must not be negative"):
        ColumnarSessionOperator(("k",), GAP, AGGREGATES, allowed_lateness=-1)


span = st.tuples(st.integers(0, 3), st.integers(-20, 20), st.integers(1, 9))


@given(st.lists(span, min_size=1, max_size=30), st.sampled_from([0, MIN_TIME + 30, MAX_TIME - 30]))
def test_runs_are_what_touches_transitively(spans: list[Any], at: int) -> None:
    low = at if at else 0
    codes, starts, ends = (np.array(part, np.int64) for part in zip(*spans, strict=True))
    starts = starts + low
    ends = starts + ends
    if at:
        starts, ends = np.append(starts, 0), np.append(ends, 1)
        codes = np.append(codes, 9)
    runs = find_runs(codes, starts, ends)
    wanted: dict[int, list[list[int]]] = {}
    for code, start, end in sorted(zip(codes.tolist(), starts.tolist(), ends.tolist(), strict=True)):
        found = wanted.setdefault(code, [])
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    assert sorted(zip(codes[runs.first].tolist(), runs.starts.tolist(), runs.ends.tolist(), strict=True)) == [
        (code, start, end) for code in sorted(wanted) for start, end in wanted[code]
    ]
    inside = (runs.starts[runs.of_row] <= starts) & (ends <= runs.ends[runs.of_row])
    assert (inside & (codes[runs.first][runs.of_row] == codes)).all()


def test_ends_stay_within_64_bits() -> None:
    assert span_ends(np.array([MIN_TIME, 3, MAX_TIME], np.int64), 5).tolist() == [MIN_TIME + 5, 8, MAX_TIME]


def test_codes_tell_keys_apart() -> None:
    codes = key_codes([pa.chunked_array([["a", "b"], ["a", None]]), pa.array([1, 1, 2, None])])
    assert len(set(codes.tolist())) == 4
    assert len(set(key_codes([pa.array([1.5, 1.5, None])]).tolist())) == 2


def test_what_is_taken_depends_on_what_came_before() -> None:
    assert rescued([(0, 10)], [(10, 12), (12, 14), (20, 21)], 5) == [True, True, True]
    assert rescued([(0, 10)], [(-5, -1), (-1, 0), (-5, -1)], 5) == [False, True, True]
