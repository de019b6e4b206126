"""The interval join: who meets whom, late rows, clean-up; each at every cut and restore of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from two_inputs import LEFT, RIGHT, TwoInputs

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, GraphError, TimestampError
from penstock.core.ids import MIN_TIME
from penstock.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval, IntervalJoinOperator
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo, verify


class Describe(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield (left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())


def left(value: str, time: int) -> Record:
    return Record((LEFT, value), time)


def right(value: str, time: int) -> Record:
    return Record((RIGHT, value), time)


def key(value: Any) -> str:
    return value[1][0]


class Make:
    """Makes the operator; an object, because a test's lambda would be pickled with the test."""

    def __init__(
        self, lower: int, upper: int, function: Any = None, how: str = "inner", late: Any = (None, None)
    ):
        self._arguments = (function or Describe(), Interval(lower, upper), JoinKind.of(how), late)

    def __call__(self) -> TwoInputs:
        return TwoInputs(lambda: IntervalJoinOperator(*self._arguments))


def run(make: Make, items: list[Any]) -> Any:
    return verify(make, keyed_by=key).input(items)


def test_records_of_one_key_meet_and_the_result_has_the_later_time() -> None:
    items = [left("a1", 10), right("a2", 12), right("b1", 11), left("b2", 9), EndOfInput()]
    pairs = [Record(("a1", "a2", 10, 12, 12), 12), Record(("b2", "b1", 9, 11, 11), 11)]
    run(Make(-5, 5), items).expect(pairs)


def test_both_bounds_are_inclusive() -> None:
    items = [left("a", 100), *(right(f"a{t}", t) for t in (97, 98, 103, 104)), EndOfInput()]
    run(Make(-2, 3, lambda one, two: two), items).expect(["a98", "a103"])


def test_exclusive_bounds_leave_out_one_millisecond() -> None:
    env = StreamExecutionEnvironment()
    stream = env.from_collection([1]).key_by(lambda i: i)
    joined = stream.interval_join(stream).between(-2, "3 ms").lower_bound_exclusive().upper_bound_exclusive()
    step = joined.process(lambda one, two: two)
    interval = step._node().factory()._interval  # type: ignore[attr-defined]
    assert interval == Interval(-1, 2)
    with pytest.raises(ConfigError, match="is empty"):
        stream.interval_join(stream).between(0, 0).upper_bound_exclusive().process(lambda one, two: two)


def test_intervals_may_lie_wholly_before_or_after() -> None:
    items = [left("a", 100), *(right(f"a{t}", t) for t in range(80, 121, 5)), EndOfInput()]
    run(Make(5, 15, lambda one, two: two), items).expect(["a105", "a110", "a115"])
    run(Make(-15, -5, lambda one, two: two), items).expect(["a85", "a90", "a95"])


def test_a_record_is_late_if_older_than_the_watermark_and_not_if_as_old() -> None:
    items = [
        left("a1", 10),
        right("a2", 12),
        WatermarkTo(12),
        left("a3", 11),
        right("a4", 11),
        left("a5", 12),
        right("a6", 12),
        EndOfInput(),
    ]
    make = Make(-5, 5, lambda one, two: one + two, late=("early", "late"))
    run(make, items).expect(
        ["a1a2", "a5a2", "a1a6", "a5a6"], side={"early": [Record("a3", 11)], "late": [Record("a4", 11)]}
    )


def test_late_records_without_a_side_output_are_counted() -> None:
    with Harness(Make(0, 5), keyed_by=key) as harness:
        harness.push(WatermarkTo(100), left("a", 99), right("a", 98))
        assert harness.late_dropped == 2
        assert harness.state("a") == {}


def test_both_sides_are_kept_only_as_long_as_a_partner_may_come() -> None:
    with Harness(Make(-10, 20), keyed_by=key) as harness:
        harness.push(left("a", 100), right("a", 100))
        harness.watermark(109)
        assert set(harness.state("a")) == {"_join/left", "_join/right"}
        harness.watermark(110)
        assert set(harness.state("a")) == {"_join/left"}
        harness.watermark(119)
        assert [timer.time for timer in harness.timers()] == [120]
        harness.watermark(120)
        assert harness.state("a") == {} and harness.timers() == []


def test_a_side_that_no_later_partner_can_meet_goes_at_its_own_time() -> None:
    with Harness(Make(-20, -10), keyed_by=key) as harness:
        harness.push(left("a", 100), right("a", 95))
        harness.watermark(100)
        assert set(harness.state("a")) == {"_join/right"}
        harness.watermark(115)
        assert harness.state("a") == {}


def test_cleanup_leaves_younger_records_of_the_key() -> None:
    items = [left("a1", 10), left("a2", 30), left("a0", 5), WatermarkTo(20), right("a3", 28), EndOfInput()]
    run(Make(-5, 5, lambda one, two: one + two), items).expect(["a2a3"])


def test_outer_joins_show_lonely_records_when_they_expire() -> None:
    items = [left("a1", 10), left("a2", 20), right("a3", 22), right("a4", 90), WatermarkTo(50), EndOfInput()]
    lonely_left, lonely_right = (
        Record(("a1", None, 10, MIN_TIME, 15), 15),
        Record((None, "a4", MIN_TIME, 90, 93), 93),
    )
    pair = Record(("a2", "a3", 20, 22, 22), 22)
    run(Make(-3, 5), items).expect([pair])
    run(Make(-3, 5, how="left"), items).expect([pair, lonely_left])
    run(Make(-3, 5, how="right"), items).expect([pair, lonely_right])
    run(Make(-3, 5, how="full"), items).expect([pair, lonely_left, lonely_right])


def test_event_time_is_needed() -> None:
    operator = Make(0, 5)()
    with Harness(operator, keyed_by=key) as harness, pytest.raises(TimestampError, match="assign_timestamps"):
        harness.push((LEFT, "a"))
    assert Batch.of_rows([1]).times is None


def test_both_streams_must_be_keyed() -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(GraphError, match="key_by"):
        stream.key_by(lambda i: i).interval_join(stream)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'inner', 'left', 'right', 'full'"):
        stream.key_by(lambda i: i).interval_join(stream.key_by(lambda i: i), how="outer")


def test_results_may_go_to_side_outputs() -> None:
    tag = OutputTag("far")

    def split(one: str, two: str) -> Any:
        return (tag, one + two) if two.endswith("!") else one + two

    items = [left("a1", 10), right("a2", 12), right("a3!", 13), EndOfInput()]
    run(Make(0, 5, split), items).expect(["a1a2"], side={"far": ["a1a3!"]})
