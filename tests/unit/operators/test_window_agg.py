"""``agg`` with every kind of window: vectorised where it can be, row by row and visibly so where not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.columns import Avg, Count, Max, Min, Sum, col
from penstock.common import Row
from penstock.core.errors import ConfigError
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.functions import AggregateFunction
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo
from penstock.testing.local import local_cluster

AGGREGATES = (Count("rows"), Sum("n"), Min("n"), Max("n"), Avg("n"))
TENS = TumblingEventTimeWindows.of(10)


@dataclass
class Order:
    k: str
    n: int | None


def plan_of(build: Any) -> str:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([Row(k="a", n=1)]).key_by("k")
    build(stream).print()
    with local_cluster():  # Spark would be asked for its number of cores
        return env.explain()


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (lambda s: s.window(TENS).agg(Count()), "Window Aggregate "),
        (lambda s: s.window(TENS).trigger(EventTimeTrigger()).agg(Count()), "Window Aggregate "),
        (
            lambda s: s.window(TENS).trigger(PurgingTrigger(EventTimeTrigger())).agg(Count()),
            "Window Aggregate ",
        ),
        (lambda s: s.window(TENS).trigger(CountTrigger.of(3)).agg(Count()), "(row by row: CountTrigger(3))"),
        (lambda s: s.window(TENS).evictor(CountEvictor.of(3)).agg(Count()), "(row by row: CountEvictor(3))"),
        (lambda s: s.window(EventTimeSessionWindows.with_gap(5)).agg(Count()), "Window Aggregate "),
        (
            lambda s: s.window(EventTimeSessionWindows.with_gap(5)).trigger(CountTrigger.of(3)).agg(Count()),
            "(row by row: CountTrigger(3))",
        ),
        (
            lambda s: s.window(ProcessingTimeSessionWindows.with_gap(5)).agg(Count()),
            "(row by row: ProcessingTimeSessionWindows(5))",
        ),
        (lambda s: s.window(GlobalWindows.create()).agg(Count()), "(row by row: GlobalWindows())"),
    ],
)
def test_the_plan_says_what_is_not_vectorised(build: Any, shown: str) -> None:
    plan = plan_of(build)
    assert shown in plan and ("row by row" in plan) == ("row by row" in shown)


def test_the_plan_shows_shared_panes() -> None:
    def shared(stream: Any) -> Any:
        return stream.window(SlidingEventTimeWindows.of(10, 5)).aggregate(RowCount())

    assert "Window (shared panes)" in plan_of(shared)


class RowCount(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def results(assigner: Any, made: Any, trigger: Any = None) -> list[Any]:
    def pipeline(stream: Any) -> Any:
        windows = stream.key_by("k").window(assigner)
        return (windows if trigger is None else windows.trigger(trigger)).agg(*AGGREGATES)

    with Harness(pipeline) as harness:
        for time, key, number in ((1, "a", 4), (2, "b", None), (3, "a", None), (5, "a", 7)):
            harness.push(Record(made(key, number), time))
        harness.push(EndOfInput())
        return sorted(tuple(row) for row in harness.take())


KINDS = [
    lambda key, number: Row(k=key, n=number),
    lambda key, number: {"k": key, "n": number},
    Order,
]


@pytest.mark.parametrize("made", KINDS)
def test_rows_with_names_of_any_kind_are_aggregated(made: Any) -> None:
    expected = [("a", 0, 10, 3, 11, 4, 7, 5.5), ("b", 0, 10, 1, None, None, None, None)]
    assert results(TENS, made) == expected
    assert results(TENS, made, PurgingTrigger.of(CountTrigger.of(3))) == expected[:1]
    assert results(EventTimeSessionWindows.with_gap(3), made) == [
        ("a", 1, 8, 3, 11, 4, 7, 5.5),
        ("b", 2, 5, 1, None, None, None, None),
    ]


def test_windows_that_are_not_of_time_have_no_bounds() -> None:
    assert results(CountTumblingWindowAssigner.of(3), KINDS[0]) == [("a", 3, 11, 4, 7, 5.5)]


def test_a_whole_stream_is_aggregated_without_keys() -> None:
    with Harness(lambda s: s.window_all(TENS).agg(Count("rows"), Sum("n"))) as harness:
        harness.push(Record(Row(k="a", n=1), 1), Record(Row(k="b", n=2), 2), WatermarkTo(9))
        assert [row.as_dict() for row in harness.take()] == [
            {"window_start": 0, "window_end": 10, "rows": 2, "sum_n": 3}
        ]


def test_row_functions_and_columns_mix() -> None:
    """Rows, aggregated row by row, as columns through a function, aggregated vectorised, and back."""

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        at = batch.schema.get_field_index("rows")
        return batch.set_column(at, "rows", pc.multiply(batch["rows"], 2))

    def pipeline(stream: Any) -> Any:
        rows = stream.map(lambda value: Row(k=value[0], n=value[1]))
        sessions = rows.key_by("k").window(EventTimeSessionWindows.with_gap(2)).agg(Count("rows"))
        columns = sessions.map_batches(doubled)
        return (
            columns.key_by("k").window(TumblingEventTimeWindows.of(100)).agg(Sum("rows", "total")).map(tuple)
        )

    with Harness(pipeline) as harness:
        harness.push(*(Record(("a", n), n) for n in (1, 2, 9)), Record(("b", 1), 5), EndOfInput())
        assert sorted(harness.take()) == [("a", 0, 100, 6), ("b", 0, 100, 2)]


def test_late_rows_keep_their_shape_in_the_side_output() -> None:
    late = OutputTag("late")
    for assigner in (TENS, EventTimeSessionWindows.with_gap(5)):

        def pipeline(stream: Any, assigner: Any = assigner) -> Any:
            return stream.key_by("k").window(assigner).side_output_late_data(late).agg(Count())

        with Harness(lambda s: pipeline(s)) as harness:
            harness.push(WatermarkTo(50), Record(Row(k="a", n=1), 3))
            assert harness.take(late) == [Row(k="a", n=1)] and harness.take() == []


def test_processing_time_windows_are_aggregated() -> None:
    pipeline = lambda s: s.key_by("k").window(TumblingProcessingTimeWindows.of(10)).agg(Count())  # noqa: E731
    with Harness(pipeline) as harness:
        harness.push(Row(k="a"), Row(k="a"))
        harness.advance(10)
        assert [tuple(row) for row in harness.take()] == [("a", 0, 10, 2)]


@pytest.mark.parametrize("assigner", [TENS, EventTimeSessionWindows.with_gap(5)])
def test_a_missing_or_unfit_field_is_named(assigner: Any) -> None:
    def pipeline(stream: Any) -> Any:
        return stream.key_by("k").window(assigner).agg(Sum("n"))

    with Harness(pipeline) as harness, pytest.raises(ConfigError, match="'n'"):
        harness.push(Record(Row(k="a", m=1), 1))
    with Harness(pipeline) as harness, pytest.raises(ConfigError, match="'n'.*summed"):
        harness.push(Record(Row(k="a", n="x"), 1))


def test_double_names_are_refused_everywhere() -> None:
    with pytest.raises(ConfigError, match="several columns called count"):
        plan_of(lambda s: s.window(GlobalWindows.create()).agg(Count(), Count()))


@pytest.mark.parametrize("trigger", [CountTrigger.of(9), EventTimeTrigger()])
def test_an_integer_sum_beyond_64_bits_is_an_error(trigger: Any) -> None:
    """Row by row at the record, vectorised at the latest when the window ends."""

    def pipeline(stream: Any) -> Any:
        sessions = stream.key_by("k").window(EventTimeSessionWindows.with_gap(5))
        return sessions.trigger(trigger).agg(Sum("n"))

    with Harness(pipeline) as harness, pytest.raises(ConfigError, match="overflows"):
        harness.push(Record(Row(k="a", n=2**62), 1), Record(Row(k="a", n=2**62), 1), WatermarkTo(100))


@pytest.mark.parametrize("assigner", [TENS, EventTimeSessionWindows.with_gap(5)])
def test_expressions_over_columns(assigner: Any) -> None:
    revenue = col("price") * col("n")

    def pipeline(stream: Any) -> Any:
        windows = stream.key_by("k").window(assigner)
        return windows.agg(
            Sum(revenue, "revenue"), Avg(revenue, "mean"), Max(10 - col("n") + 1, "rest"), Sum("n")
        )

    rows = [Row(k="a", n=2, price=1.5), Row(k="a", n=3, price=2.0), Row(k="a", n=4, price=None)]
    with Harness(pipeline) as harness:
        harness.push(*(Record(row, 1) for row in rows), EndOfInput())
        (result,) = harness.take()
    assert (result.revenue, result.mean, result.rest, result.sum_n) == (9.0, 4.5, 9, 9)


def test_an_expression_is_a_value() -> None:
    assert Sum(col("a") + 1) == Sum(col("a") + 1) != Sum(col("a") - 1)
    assert hash(Sum(col("a") + 1)) == hash(Sum(col("a") + 1))
    assert str(2 * (col("a") - col("b"))) == "(2 * (a - b))"
    with pytest.raises(ConfigError, match="takes a column's name or an expression"):
        Sum(3)  # type: ignore[arg-type]
