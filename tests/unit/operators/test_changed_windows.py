"""Windows, frames and intervals changed over a savepoint: what still fits goes on, the rest is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.columns import Count, Sum
from penstock.core.batch import Batch
from penstock.core.errors import SnapshotError
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.operators.columnar.cumulative import CumulativePanes
from penstock.operators.columnar.over import Frame, OverOperator
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.row_by_row import RowAggregate, RowResults
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval
from penstock.operators.operator import Operator
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import AggregateContents
from penstock.state.backend import FrozenTable
from penstock.testing.operator_run import OperatorRun, owners_of

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
JOIN = ColumnJoin(("k",), ("k",), ("_l", "_r"), JoinKind.FULL, (SCHEMA, SCHEMA))


def records(*times: int) -> Batch:
    columns = pa.record_batch({"k": ["a"] * len(times), "n": list(times)}, schema=SCHEMA)
    return Batch.of_columns(columns, np.array(times, np.int64), ("k",))


def rows(*times: int) -> Batch:
    batch = records(*times)
    return Batch.of_rows(batch.to_rows(), batch.times, batch.key_list())


class Changing:
    """An operator that is another one after the next restore."""

    def __init__(self, make: Any, *shapes: Any) -> None:
        self._make, self._shapes = make, list(shapes)
        self.run = OperatorRun(lambda: make(self._shapes[0]))

    def change(self) -> OperatorRun:
        self._shapes.pop(0)
        self.run.restore(2)
        return self.run


def windows(panes: Panes) -> Operator:
    return ColumnarWindowOperator(["k"], panes, (Count("n"),))


def joined(panes: Panes) -> Operator:
    return ColumnarWindowJoinOperator(JOIN, panes)


OTHERS = [
    Panes.tumbling(10),
    Panes.tumbling(60, 5),
    Panes(60, 20),
    CumulativePanes(60, 20),
    Panes.tumbling(120),
]


@pytest.mark.parametrize("make", [windows, joined])
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_panes_that_windows_are_not_made_of_are_refused(make: Any, other: Panes) -> None:
    """Ten seconds had what sixty had gathered, or sixty the first ten."""
    trial = Changing(make, Panes.tumbling(60), other)
    trial.run.process(records(1, 15, 55))
    with pytest.raises(
        SnapshotError, match=r"made for panes of 60 ms from 0 ms, and the step is for panes of"
    ):
        trial.change()


def test_windows_of_the_same_panes_go_on() -> None:
    trial = Changing(windows, Panes(40, 20), Panes(60, 20), Panes.tumbling(20))
    trial.run.process(records(1, 25, 45))
    trial.change().process(records(26))
    trial.change().finish()
    found = [(row["window_start"], row["n"]) for row in (result.value for result in trial.run.results)]
    assert found == [(0, 1), (20, 2), (40, 1)]


def test_rows_of_shared_panes_are_refused_where_their_offset_has_changed() -> None:
    def make(offset: int) -> Operator:
        results = RowResults(("k",), (Count("n"),))
        contents = AggregateContents(RowAggregate((Count("n"),)))
        return WindowOperator(SlidingEventTimeWindows.of(40, 20, offset), contents, results)

    trial = Changing(make, 0, 5)
    trial.run.process(rows(1, 25))
    with pytest.raises(SnapshotError, match="offset"):
        trial.change()
    same = Changing(make, 0, 0)
    same.run.process(rows(1, 25))
    same.change().finish()
    assert len(same.run.results) == 3


@pytest.mark.parametrize("times", [(1, 25, 45), (45, 130)], ids=str)
@pytest.mark.parametrize("seen", [None, 39, 50, 99])
@pytest.mark.parametrize(("before", "after"), [(40, 60), (60, 40), (40, 80), (100, 40)])
def test_shared_panes_of_rows_go_on_as_those_of_columns(
    before: int, after: int, seen: int | None, times: tuple[int, ...]
) -> None:
    """Timers of windows of another size fired those, and then no more."""
    found = []
    for make, batch in ((shared, rows), (lambda size: windows(Panes(size, 20)), records)):
        trial = Changing(make, before, after)
        trial.run.process(batch(*times))
        if seen is not None:
            trial.run.watermark(seen)
        trial.change()
        trial.run.process(batch(200))
        trial.run.finish()
        values = [result.value for result in trial.run.results]
        found.append(sorted((row["window_start"], row["window_end"], row["n"]) for row in values))
        assert not any(list(part.items()) for each in trial.run.operators for part in tables(each))
    assert found[0] == found[1]


def shared(size: int, lateness: int = 0) -> WindowOperator:
    contents = AggregateContents(RowAggregate((Count("n"),)))
    return WindowOperator(
        SlidingEventTimeWindows.of(size, 20),
        contents,
        RowResults(("k",), (Count("n"),)),
        allowed_lateness_ms=lateness,
    )


STEP = st.one_of(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 150)), min_size=1, max_size=5),
    st.integers(1, 70),
    st.tuples(st.sampled_from([40, 60, 80, 100]), st.integers(1, 3)),
)


def played(make: Any, script: list[Any], size: int, is_rows: bool) -> list[Any]:
    """Records by their distance from the watermark, what it grows by, and new sizes with a parallelism."""
    sizes, watermark = [size], 0
    run = OperatorRun(lambda: make(sizes[-1]))
    for step in script:
        if isinstance(step, list):
            keys, times = [key for key, _ in step], np.array([watermark + far for _, far in step], np.int64)
            columns = pa.record_batch({"k": keys, "n": times}, schema=SCHEMA)
            batch = Batch.of_columns(columns, times, ("k",))
            run.process(Batch.of_rows(batch.to_rows(), times, keys) if is_rows else batch)
        elif isinstance(step, tuple):
            sizes.append(step[0])
            run.restore(step[1])
        else:
            watermark += step
            run.watermark(watermark)
    run.finish()
    if is_rows:
        assert not any(list(part.items()) for each in run.operators for part in tables(each))
    return sorted(tuple(result.value) for result in run.results)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=16), st.sampled_from([40, 100]), st.sampled_from([0, 30]))
def test_any_change_of_size_is_the_same_for_rows_and_columns(
    script: list[Any], size: int, lateness: int
) -> None:
    """Where late records are allowed rows may show more: how far event time had come is known by timers."""

    def in_columns(size: int) -> Operator:
        return ColumnarWindowOperator(["k"], Panes(size, 20), (Count("n"),), allowed_lateness=lateness)

    found = played(lambda size: shared(size, lateness), script, size, True)
    wanted = played(in_columns, script, size, False)
    assert found == wanted or (lateness and set(found) >= set(wanted))


def tables(operator: Operator) -> list[Any]:
    return [part for part in operator.ctx.keyed.freeze() if isinstance(part, FrozenTable)]


@pytest.mark.parametrize(("before", "after"), [(40, 60), (60, 40)])
def test_panes_that_wait_for_late_records_are_forgotten_with_their_new_windows(
    before: int, after: int
) -> None:
    trial = Changing(lambda size: shared(size, 30), before, after)
    trial.run.process(rows(1))
    trial.run.watermark(59)
    trial.change()
    trial.run.process(rows(2))
    last = max(result.value["window_end"] for result in trial.run.results)
    assert trial.run.results[-1].value["n"] == 2
    trial.run.finish()
    assert last <= 60 and not any(list(part.items()) for each in trial.run.operators for part in tables(each))


def test_shared_panes_with_another_slide_are_refused() -> None:
    def make(slide: int) -> Operator:
        results = RowResults(("k",), (Count("n"),))
        contents = AggregateContents(RowAggregate((Count("n"),)))
        return WindowOperator(SlidingEventTimeWindows.of(60, slide), contents, results)

    trial = Changing(make, 20, 40)
    trial.run.process(rows(25))
    with pytest.raises(SnapshotError, match="slide"):
        trial.change()


def test_frames_that_were_folded_are_refused_where_they_have_a_bound_now() -> None:
    def make(frame: Frame) -> Operator:
        return OverOperator(SCHEMA, ["k"], frame, (Sum("n", "total"),))

    for before, after in ((Frame(True), Frame(True, rows=1)), (Frame(False, range_ms=5), Frame(False))):
        trial = Changing(make, before, after)
        trial.run.process(records(1, 2, 3))
        trial.run.watermark(10)
        with pytest.raises(SnapshotError, match="frames with.* a lower bound"):
            trial.change()
    trial = Changing(make, Frame(True, rows=2), Frame(True, rows=1))
    trial.run.process(records(1, 2, 3))
    trial.run.watermark(10)
    trial.change().process(records(20))
    trial.run.finish()
    assert trial.run.results[-1].value["total"] == 23


BOTH, ONE = {(9_000, 9_100), (19_000, 9_100)}, {(9_000, 9_100), (19_000, None)}


@pytest.mark.parametrize(
    ("other", "wanted"),
    [(Interval(-500, 500), ONE), (Interval(-90_000, 90_000), BOTH), (Interval(0, 200), ONE)],
    ids=str,
)
def test_an_interval_may_change(other: Interval, wanted: set[Any]) -> None:
    """Rows of wide panes were not found, and let go, where narrow ones were looked for."""
    wide = Interval(-20_000, 20_000)
    trial = Changing(lambda bounds: ColumnarIntervalJoinOperator(JOIN, bounds), wide, other)
    trial.run.operators[0].process(records(9_000, 19_000), 0)
    trial.run.watermark(8_000)
    trial.change()
    trial.run.watermark(8_500)
    late = records(9_100)
    trial.run.operators[owners_of(late.key_list(), 2)[0]].process(late, 1)
    trial.run.finish()
    values = [result.value for result in trial.run.results]
    assert {(row["n_l"], row["n_r"]) for row in values} == wanted
