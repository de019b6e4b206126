"""Time, lateness, state and results of the pattern operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cep_rig import TIMED_OUT, Words, letter, step

from penstock.cep import (
    CEP,
    EventComparator,
    Pattern,
    PatternProcessFunction,
    PatternSelectFunction,
    WithinType,
)
from penstock.common import Types, WatermarkStrategy
from penstock.core.errors import ConfigError, TimestampError
from penstock.datastream import OutputTag, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.operators.cep.operator import PatternOperator
from penstock.testing import EndOfInput, Harness, ProcessingTimeTo, Record, WatermarkTo, local_cluster, verify

AB = step("a").followed_by("b").where(letter("B"))
LATE = OutputTag("late")


def harness(pattern: Pattern, function: Any = None, **options: Any) -> Harness:
    tell = Words() if function is None else function
    return Harness(lambda: PatternOperator(pattern, tell, **options), keyed_by=lambda word: word[-1])


# --- event time -----------------------------------------------------------------------------------


def test_events_wait_for_the_watermark_and_come_in_order_of_time() -> None:
    with harness(AB) as h:
        h.push(Record("B1", 20), Record("A1", 10))
        assert h.take() == []
        h.watermark(19)
        assert h.take() == []
        h.watermark(20)
        assert h.take_records() == [Record("a:A1 b:B1", 20)]


def test_ties_keep_the_order_of_arrival() -> None:
    with harness(AB) as h:
        h.push(Record("B1", 10), Record("A1", 10))
        h.finish()
        assert h.take() == []
    with harness(AB) as h:
        h.push(Record("A1", 10), Record("B1", 10))
        h.finish()
        assert h.take() == ["a:A1 b:B1"]


class Alphabetical(EventComparator):
    def compare(self, first: Any, second: Any) -> int:
        return (first > second) - (first < second)


def test_a_comparator_orders_ties() -> None:
    with harness(AB, comparator=Alphabetical()) as h:
        h.push(Record("B1", 10), Record("A1", 10))
        h.finish()
        assert h.take() == ["a:A1 b:B1"]


def test_an_event_at_or_before_the_watermark_is_late() -> None:
    with harness(AB, late_tag=LATE.tag_id) as h:
        h.watermark(10)
        h.push(Record("A1", 10), Record("A1", 11), Record("B1", 12))
        h.finish()
        assert h.take() == ["a:A1 b:B1"]
        assert h.take_records(LATE) == [Record("A1", 10)]


def test_late_events_without_a_side_output_are_counted() -> None:
    with harness(AB) as h:
        h.watermark(10)
        h.push(Record("A1", 10))
        assert h.late_dropped == 1


def test_records_without_time_are_refused() -> None:
    with harness(AB) as h, pytest.raises(TimestampError, match="in_processing_time"):
        h.push("A1")


# --- within ---------------------------------------------------------------------------------------


def test_a_match_complete_exactly_at_the_limit_does_not_count() -> None:
    for end, expected in ((19, ["a:A1 b:B1"]), (20, [])):
        with harness(AB.within(10)) as h:
            h.push(Record("A1", 10), Record("B1", end))
            h.finish()
            assert h.take() == expected
            assert h.take(TIMED_OUT) == ([] if expected else [("a:A1", 20)])


def test_the_shortest_within_counts() -> None:
    pattern = step("a").within(5).followed_by("b").where(letter("B")).within(100)
    with harness(pattern) as h:
        h.push(Record("A1", 10), Record("B1", 15))
        h.finish()
        assert h.take() == []


def test_within_from_the_previous_event() -> None:
    pattern = AB.within(10, WithinType.PREVIOUS_AND_CURRENT).followed_by("c").where(letter("C"))
    with harness(pattern) as h:
        h.push(Record("A1", 0), Record("B1", 9), Record("C1", 1000))
        h.push(Record("A2", 0), Record("B2", 10), Record("C2", 1000))
        h.finish()
        assert h.take() == ["a:A1 b:B1 c:C1"]
        assert h.take(TIMED_OUT) == [("a:A2", 10)]


def test_a_timed_out_match_is_told_when_the_watermark_says_so() -> None:
    with harness(AB.within(10)) as h:
        h.push(Record("A1", 10))
        h.watermark(19)
        assert h.take(TIMED_OUT) == []
        h.watermark(20)
        assert h.take_records(TIMED_OUT) == [Record(("a:A1", 20), 20)]
        assert h.timers() == []


def test_not_followed_by_at_the_end_matches_when_time_runs_out() -> None:
    pattern = step("a").not_followed_by("b").where(letter("B")).within(10)
    with harness(pattern) as h:
        h.push(Record("A1", 10), Record("A2", 10), Record("B2", 15))
        h.watermark(19)
        assert h.take() == []
        h.watermark(20)
        assert h.take_records() == [Record("a:A1", 20)]


# --- processing time ------------------------------------------------------------------------------


def test_processing_time_takes_events_as_they_come() -> None:
    with harness(AB.within(10), event_time=False) as h:
        h.push(Record("A1", 999), "B1")
        assert h.take() == ["a:A1 b:B1"]
        h.push("A2")
        h.advance(11)
        assert h.take(TIMED_OUT) == [("a:A2", 10)]
        h.push("B2")
        assert h.take() == []


def test_processing_time_under_verify() -> None:
    items = ["A1", "A2", ProcessingTimeTo(5), "B1", ProcessingTimeTo(40), "B2", EndOfInput()]
    verify(
        lambda: PatternOperator(AB.within(10), Words(), event_time=False), keyed_by=lambda word: word[-1]
    ).input(items).expect(["a:A1 b:B1"], side={TIMED_OUT.tag_id: [("a:A2", 10)]})


# --- state ----------------------------------------------------------------------------------------


def tables(h: Harness) -> dict[str, int]:
    keyed = h._stages[0].trial.operators[0].ctx.keyed
    return {
        name: len(table) for name, table in keyed._tables.items() if name.startswith("_cep/") and len(table)
    }


def test_alternatives_share_events_and_nothing_stays_behind() -> None:
    """Each of 10 events is stored once, however many of the 2^10 combinations hold it."""
    pattern = step("a").one_or_more().allow_combinations().followed_by("b").where(letter("B")).within(1000)
    with harness(pattern) as h:
        h.push(*(Record("A1", time) for time in range(10)))
        h.watermark(100)
        assert tables(h)["_cep/events"] == 10
        h.push(Record("B1", 200))
        h.watermark(200)
        assert len(h.take()) == 2**10 - 1
        h.watermark(2000)
        assert tables(h) == {}


def test_an_event_that_begins_nothing_leaves_nothing() -> None:
    with harness(AB) as h:
        h.push(Record("B1", 10), Record("C1", 11))
        h.watermark(20)
        assert tables(h) == {}


def test_a_condition_that_looks_back_leaves_nothing_either() -> None:
    first = Pattern.begin("a").where(lambda word, ctx: not ctx.get_events_for_pattern("a") and word[0] == "A")
    with harness(first.next("b")) as h:
        h.push(Record("B1", 10), Record("C1", 11))
        h.watermark(20)
        assert tables(h) == {}


def test_another_pattern_does_not_take_over_partial_matches() -> None:
    with harness(AB) as h:
        h.push(Record("A1", 10))
        h.watermark(20)
        snapshot = h.snapshot()
    other = step("a").next("b").where(letter("B"))
    with harness(other) as h, pytest.raises(ConfigError, match="another pattern"):
        h.restore(snapshot)


class Counting(PatternProcessFunction):
    """Uses keyed state of its own."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        self._count.update((self._count.value() or 0) + 1)
        yield match["a"][0], self._count.value(), ctx.timestamp()


def test_process_function_with_state_of_its_own() -> None:
    items = [Record(f"{kind}{key}", time) for time in range(6) for kind in "AB" for key in (1, 2)]
    names = verify(lambda: PatternOperator(AB, Counting()), keyed_by=lambda word: word[-1]).input(
        [*items, WatermarkTo(2), EndOfInput()]
    )
    assert "restored after every item" in names.matches_itself()


# --- programs -------------------------------------------------------------------------------------


class Pairs(PatternSelectFunction):
    def select(self, pattern: Any) -> Any:
        return pattern["a"][0][0] + pattern["b"][0][0]


def source(env: StreamExecutionEnvironment) -> Any:
    words = [("A1", 0), ("A2", 1), ("B1", 2), ("X2", 20), ("B2", 30)]
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda word, _: word[1])
    return env.from_collection(words).assign_timestamps_and_watermarks(by_time)


AB_PAIRS = (
    Pattern.begin("a")
    .where(lambda word: word[0][0] == "A")
    .followed_by("b")
    .where(lambda word: word[0][0] == "B")
    .within(10)
)


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_select_on_a_keyed_stream_with_timeouts(mode: RuntimeExecutionMode) -> None:
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(mode)
        keyed = source(env).key_by(lambda word: word[0][-1])
        result = CEP.pattern(keyed, AB_PAIRS).select(
            Pairs(),
            timed_out_partial_matches_tag=TIMED_OUT,
            pattern_timeout_function=lambda match, time: f"{match['a'][0][0]} until {time}",
        )
        both = result.union(result.get_side_output(TIMED_OUT))
        assert sorted(both.execute_and_collect()) == ["A1B1", "A2 until 11"]


def test_flat_select_on_a_stream_without_keys() -> None:
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        result = CEP.pattern(source(env), AB_PAIRS).flat_select(lambda match: [m[0] for m in match["a"]])
        assert sorted(result.execute_and_collect()) == ["A1", "A2"]


def test_an_unkeyed_pattern_runs_on_one_subtask() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    result = CEP.pattern(source(env), AB_PAIRS).in_processing_time().in_event_time().process(Counting())
    assert env.graph.get(result._links[0].source).parallelism == 1


def test_wrong_arguments_are_refused_at_once() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = CEP.pattern(source(env), AB_PAIRS).side_output_late_data(LATE)
    with pytest.raises(ConfigError, match="PatternProcessFunction"):
        stream.process(lambda match: match)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="both an OutputTag and a timeout function"):
        stream.select(Pairs(), timed_out_partial_matches_tag=TIMED_OUT)
    with pytest.raises(ConfigError, match="Pattern.begin"):
        CEP.pattern(source(env), "a").select(Pairs())  # type: ignore[arg-type]
