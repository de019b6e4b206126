"""Joins against relations: random keys, times, disorder, batches, watermarks, crashes and rescaling.

Records are out of order, but never behind the watermark; so every join must give exactly the pairs of the
model, whatever happened in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_model import Event, interval_pairs, temporal_pairs, window_pairs

from penstock.core.batch import Batch
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.operators.columnar.panes import Panes
from penstock.operators.join import columnar_temporal
from penstock.operators.join.cogroup import window_join
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind, ProcessJoinFunction
from penstock.operators.join.interval import Interval, IntervalJoinOperator
from penstock.operators.join.temporal import TemporalJoinOperator
from penstock.operators.operator import Operator
from penstock.testing.operator_run import OperatorRun, owners_of

KEYS = ("a", "b", "c")
DISORDER = 30
HOWS = [kind.value for kind in JoinKind]
EXAMPLES = settings(max_examples=60, deadline=None)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return [(left, right)]


def together(left: Any, right: Any) -> Any:
    return (left, right)


class Run:
    """Two sides of input in steps: batches of one side, watermarks, crashes."""

    def __init__(self, steps: list[tuple[str, Any]]) -> None:
        self.steps = steps
        self.sides: tuple[list[Event], list[Event]] = ([], [])
        for kind, value in steps:
            if kind == "batch":
                self.sides[value[0]].extend(value[1])

    def __repr__(self) -> str:
        return f"Run({self.steps!r})"


@st.composite
def runs(draw: st.DrawFn) -> Run:
    steps: list[tuple[str, Any]] = []
    now, watermark, number = 0, -DISORDER, 0
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["batch", "batch", "batch", "watermark", "crash"]))
        if kind == "batch":
            events = []
            for _ in range(draw(st.integers(1, 5))):
                now += draw(st.integers(0, 25))
                time = max(watermark + 1, now - draw(st.integers(0, DISORDER)))
                events.append(Event(draw(st.sampled_from(KEYS)), time, number))
                number += 1
            steps.append(("batch", (draw(st.integers(0, 1)), events)))
        elif kind == "watermark":
            watermark = max(watermark, now - draw(st.integers(0, DISORDER)))
            steps.append(("watermark", watermark))
        else:
            steps.append(("crash", draw(st.integers(1, 3))))
    return Run(steps)


Encode = Callable[[list[Event]], Batch]


def as_rows(events: list[Event]) -> Batch:
    return Batch.of_rows(events, [e.time for e in events], [e.key for e in events])


def as_columns(events: list[Event]) -> Batch:
    rows = as_rows(events)
    columns = pa.record_batch(
        {
            "key": [e.key for e in events],
            "time": [e.time for e in events],
            "number": [e.number for e in events],
        }
    )
    return Batch.of_columns(columns, rows.times, ("key",))


class TwoSided(OperatorRun):
    """A trial whose batches have a side."""

    def feed(self, side: int, batch: Batch) -> None:
        owners = owners_of(batch.key_list(), len(self.operators))
        for number, operator in enumerate(self.operators):
            mine = [n for n, owner in enumerate(owners.tolist()) if owner == number]
            if mine:
                operator.process(batch.take(pa.array(mine).to_numpy()), side)


def results(make: Callable[[], Operator], run: Run, encode: Encode) -> Counter[Any]:
    trial = TwoSided(make)
    for kind, value in run.steps:
        if kind == "batch":
            trial.feed(value[0], encode(value[1]))
        elif kind == "watermark":
            trial.watermark(value)
        else:
            trial.restore(value)
    trial.finish()
    for operator in trial.operators:
        assert not any(len(table) for table in operator.ctx.keyed._tables.values()) or isinstance(
            operator, TemporalJoinOperator
        ), "state is left at the end"
    trial.close()
    if encode is as_rows:
        return Counter((*pair.value, pair.time) for pair in trial.results)
    return Counter(
        (event_of(row, "_left"), event_of(row, "_right"), pair.time)
        for pair in trial.results
        for row in [pair.value.as_dict()]
    )


def event_of(row: dict[str, Any], suffix: str) -> Event | None:
    """One side of a result; ``None`` if the result has no such side."""
    time, number = row[f"time{suffix}"], row[f"number{suffix}"]
    assert (time is None) == (number is None)
    return None if time is None else Event(row["key"], time, number)


BOUNDS = st.tuples(st.integers(-60, 60), st.integers(0, 80)).map(lambda b: (b[0], b[0] + b[1]))


@pytest.mark.parametrize("how", HOWS)
@EXAMPLES
@given(run=runs(), bounds=BOUNDS)
def test_interval_join(how: str, run: Run, bounds: tuple[int, int]) -> None:
    wanted = Counter(interval_pairs(*run.sides, *bounds, how))
    assert (
        results(lambda: IntervalJoinOperator(Pairs(), Interval(*bounds), JoinKind.of(how)), run, as_rows)
        == wanted
    )


SHAPES = st.sampled_from([(40, 40), (60, 20), (50, 20), (20, 50)])


@pytest.mark.parametrize("how", HOWS)
@EXAMPLES
@given(run=runs(), shape=SHAPES)
def test_window_join(how: str, run: Run, shape: tuple[int, int]) -> None:
    wanted = Counter(window_pairs(*run.sides, *shape, how))
    assigner = SlidingEventTimeWindows.of(*shape)
    assert results(lambda: window_join(assigner, together, JoinKind.of(how)), run, as_rows) == wanted


@pytest.mark.parametrize("how", ["inner", "left"])
@EXAMPLES
@given(run=runs())
def test_temporal_join(how: str, run: Run) -> None:
    wanted = Counter(temporal_pairs(*run.sides, how))
    assert results(lambda: TemporalJoinOperator(together, JoinKind.of(how)), run, as_rows) == wanted


SCHEMA = pa.schema([("key", pa.string()), ("time", pa.int64()), ("number", pa.int64())])
COLUMNS = ColumnJoin(("key",), ("key",), ("_left", "_right"))


def columns(how: str) -> ColumnJoin:
    return ColumnJoin(("key",), ("key",), ("_left", "_right"), JoinKind.of(how), (SCHEMA, SCHEMA))


@pytest.mark.parametrize("how", HOWS)
@EXAMPLES
@given(run=runs(), bounds=BOUNDS)
def test_interval_join_of_columns(how: str, run: Run, bounds: tuple[int, int]) -> None:
    wanted = Counter(interval_pairs(*run.sides, *bounds, how))
    make = lambda: ColumnarIntervalJoinOperator(columns(how), Interval(*bounds))  # noqa: E731
    assert results(make, run, as_columns) == wanted


@pytest.mark.parametrize("how", HOWS)
@EXAMPLES
@given(run=runs(), shape=SHAPES)
def test_window_join_of_columns(how: str, run: Run, shape: tuple[int, int]) -> None:
    wanted = Counter(window_pairs(*run.sides, *shape, how))
    make = lambda: ColumnarWindowJoinOperator(columns(how), Panes(*shape))  # noqa: E731
    assert results(make, run, as_columns) == wanted


@pytest.mark.parametrize("how", ["inner", "left"])
@EXAMPLES
@given(run=runs(), few=st.sampled_from([0, 1 << 16]))
def test_temporal_join_of_columns(how: str, run: Run, few: int) -> None:
    wanted = Counter(temporal_pairs(*run.sides, how))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar_temporal, "_FEW_ROWS", few)
        patch.setattr(columnar_temporal, "_WIDTH_MS", 20)
        assert results(lambda: ColumnarTemporalJoinOperator(columns(how)), run, as_columns) == wanted


@st.composite
def late_runs(draw: st.DrawFn, restarts: bool = True) -> Run:
    """Runs with records behind the watermark, exactly at it, and before it.

    With ``restarts`` behind which event time starts over, from earlier than it was.
    """
    steps: list[tuple[str, Any]] = []
    watermark = 0
    for kind, value in draw(runs()).steps:
        if kind == "watermark":
            watermark = value
        elif kind == "batch":
            moved = [
                Event(
                    e.key, watermark + draw(st.integers(-40, 40)) if draw(st.booleans()) else e.time, e.number
                )
                for e in value[1]
            ]
            value = (value[0], moved)
        elif restarts and draw(st.booleans()):
            kind = "restart"
        steps.append((kind, value))
        if kind == "restart" and draw(st.booleans()):
            steps.append(("watermark", watermark - draw(st.integers(0, 80))))
    return Run(steps)


def sorted_out(make: Callable[[], Operator], run: Run, encode: Encode) -> Counter[Any]:
    """Pairs and late records, by their numbers."""
    trial = TwoSided(make)
    for kind, value in run.steps:
        if kind == "batch":
            trial.feed(value[0], encode(value[1]))
        elif kind == "watermark":
            trial.watermark(value)
        else:
            trial.restore(value, told=kind == "crash")
    trial.finish()
    found: Counter[Any] = Counter()
    for result in trial.results:
        value = result.value
        if isinstance(value, tuple):
            numbers: Any = tuple(None if side is None else side.number for side in value)
        elif isinstance(value, Event):
            numbers = value.number
        else:
            fields = value.as_dict()
            numbers = fields.get("number", (fields.get("number_left"), fields.get("number_right")))
        found[(numbers, result.time, result.side)] += 1
    return found


LATE_TAGS = ("one", "two")
ENDING_AT_ONCE = st.sampled_from([(-5, 0), (0, 5), (0, 0), (-60, 0)])
"""A side whose rows expire at their own time: one that comes with the watermark's stays until the next."""


@pytest.mark.parametrize("bounds", [(-5, 0), (0, 5), (0, 0)])
def test_rows_at_the_watermark_meet_until_the_next_one(bounds: tuple[int, int]) -> None:
    left, right, other = Event("a", 100, 1), Event("a", 100, 2), Event("a", 100, 3)
    steps: list[tuple[str, Any]] = [("watermark", 100), ("batch", (0, [left]))]
    steps += [("batch", (1, [right])), ("watermark", 101), ("batch", (0, [other]))]
    interval = Interval(*bounds)
    wanted = {((1, 2), 100, None): 1, (3, 100, "one"): 1}
    rows = lambda: IntervalJoinOperator(Pairs(), interval, late_tags=LATE_TAGS)  # noqa: E731
    assert sorted_out(rows, Run(list(steps)), as_rows) == wanted
    columnar = lambda: ColumnarIntervalJoinOperator(COLUMNS, interval, LATE_TAGS)  # noqa: E731
    assert sorted_out(columnar, Run(list(steps)), as_columns) == wanted


@pytest.mark.parametrize("how", ["left", "right", "full"])
@EXAMPLES
@given(run=late_runs(), bounds=BOUNDS | ENDING_AT_ONCE)
def test_late_and_lonely_records_are_the_same_in_outer_interval_joins(
    how: str, run: Run, bounds: tuple[int, int]
) -> None:
    interval, kind = Interval(*bounds), JoinKind.of(how)
    rows = sorted_out(lambda: IntervalJoinOperator(Pairs(), interval, kind, LATE_TAGS), run, as_rows)
    make = lambda: ColumnarIntervalJoinOperator(columns(how), interval, LATE_TAGS)  # noqa: E731
    assert sorted_out(make, run, as_columns) == rows


@EXAMPLES
@given(run=late_runs(), bounds=BOUNDS | ENDING_AT_ONCE)
def test_late_records_of_rows_and_columns_are_the_same_in_interval_joins(
    run: Run, bounds: tuple[int, int]
) -> None:
    interval = Interval(*bounds)
    rows = sorted_out(lambda: IntervalJoinOperator(Pairs(), interval, late_tags=LATE_TAGS), run, as_rows)
    assert (
        sorted_out(lambda: ColumnarIntervalJoinOperator(COLUMNS, interval, LATE_TAGS), run, as_columns)
        == rows
    )


@EXAMPLES
@given(run=late_runs(), shape=SHAPES)
def test_late_records_of_rows_and_columns_are_the_same_in_window_joins(
    run: Run, shape: tuple[int, int]
) -> None:
    assigner, panes = SlidingEventTimeWindows.of(*shape), Panes(*shape)
    rows = sorted_out(
        lambda: window_join(assigner, together, JoinKind.INNER, late_tags=LATE_TAGS), run, as_rows
    )
    assert sorted_out(lambda: ColumnarWindowJoinOperator(COLUMNS, panes, LATE_TAGS), run, as_columns) == rows


@pytest.mark.parametrize("how", ["left", "right", "full"])
@EXAMPLES
@given(run=late_runs(), shape=SHAPES)
def test_late_and_lonely_records_are_the_same_in_outer_window_joins(
    how: str, run: Run, shape: tuple[int, int]
) -> None:
    assigner, panes, kind = SlidingEventTimeWindows.of(*shape), Panes(*shape), JoinKind.of(how)
    rows = sorted_out(lambda: window_join(assigner, together, kind, late_tags=LATE_TAGS), run, as_rows)
    make = lambda: ColumnarWindowJoinOperator(columns(how), panes, LATE_TAGS)  # noqa: E731
    assert sorted_out(make, run, as_columns) == rows


@pytest.mark.parametrize("how", ["inner", "left"])
@EXAMPLES
@given(run=late_runs(restarts=False))
def test_late_records_and_versions_are_the_same_in_temporal_joins(how: str, run: Run) -> None:
    kind = JoinKind.of(how)
    rows = sorted_out(lambda: TemporalJoinOperator(together, kind, "one"), run, as_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar_temporal, "_FEW_ROWS", 0)
        patch.setattr(columnar_temporal, "_WIDTH_MS", 20)
        make = lambda: ColumnarTemporalJoinOperator(columns(how), "one")  # noqa: E731
        assert sorted_out(make, run, as_columns) == rows


@pytest.mark.parametrize("columnar", [False, True], ids=["rows", "columns"])
def test_rows_that_an_inner_join_kept_are_not_shown_alone_by_an_outer_one(columnar: bool) -> None:
    """Whether they met a partner was not noted: who did would be said to have met nobody."""
    interval, how = Interval(-50, 50), ["inner"]

    def make() -> Operator:
        kind = JoinKind.of(how[0])
        if columnar:
            return ColumnarIntervalJoinOperator(columns(how[0]), interval, LATE_TAGS)
        return IntervalJoinOperator(Pairs(), interval, kind, LATE_TAGS)

    encode = as_columns if columnar else as_rows
    trial = TwoSided(make)
    trial.feed(0, encode([Event("a", 100, 1)]))
    trial.feed(1, encode([Event("a", 100, 2)]))
    trial.watermark(110)
    how[0] = "full"
    trial.restore(2)
    trial.feed(0, encode([Event("b", 120, 3)]))
    trial.finish()
    lonely = [result for result in trial.results if None in pair_of(result.value)]
    assert [pair_of(result.value) for result in lonely] == [(3, None)]


def pair_of(value: Any) -> tuple[int | None, int | None]:
    """The numbers of a result."""
    if isinstance(value, tuple):
        return tuple(None if side is None else side.number for side in value)  # type: ignore[return-value]
    fields = value.as_dict()
    return fields["number_left"], fields["number_right"]
