"""How functions behave: what PyFlink does, or on purpose better.

The tests stand in the order of the behaviours that a call-compatible library must decide on; the guide
``docs/guides/pyflink.md`` says which are PyFlink's and which are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from compat_rig import environment, results, stream, timed

from penstock.common import Row, Types
from penstock.core.errors import GraphError, JobFailedError
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from penstock.datastream.data_stream import KeyedStream
from penstock.testing.local import local_cluster

LATE = OutputTag("late")
LONG_MIN = -(2**63)


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


# --- the output protocol ------------------------------------------------------------------------


class NoneListOrGenerator(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
        if value == 0:
            return None
        if value == 1:
            return [10, 11]
        return (n for n in (value, value))


def test_process_element_may_return_none_an_iterable_or_a_generator() -> None:
    assert results(stream([0, 1, 2]).process(NoneListOrGenerator())) == [10, 11, 2, 2]


def test_map_emits_whatever_it_returns_also_none() -> None:
    assert results(stream([1, 2]).map(lambda _: None)) == [None, None]


def test_flat_map_takes_any_iterable() -> None:
    assert results(stream(["a b", "c"]).flat_map(str.split)) == ["a", "b", "c"]


class OnlySecond(CoMapFunction):
    def map1(self, value: Any) -> None:
        return None

    def map2(self, value: Any) -> Any:
        return value


class SecondTwice(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return None

    def flat_map2(self, value: Any) -> Any:
        return [value, value]


def test_co_map_drops_none_and_co_flat_map_what_is_empty() -> None:
    env = environment()
    both = env.from_collection([1]).connect(env.from_collection([2]))
    assert results(both.map(OnlySecond())) == [2]
    assert results(both.flat_map(SecondTwice())) == [2, 2]


class TimerWithoutResult(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        return None


def test_on_timer_may_return_none_where_pyflink_fails() -> None:
    assert results(stream([1]).key_by(lambda value: value).process(TimerWithoutResult())) == []


# --- side outputs, timestamps -------------------------------------------------------------------


class Both(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield LATE, -value
        yield value


def test_a_side_output_without_a_reader_is_dropped_not_mixed_in() -> None:
    assert results(stream([1, 2]).process(Both())) == [1, 2]


def test_a_side_output_with_a_reader_gets_its_values() -> None:
    assert results(stream([1, 2]).process(Both()).get_side_output(LATE)) == [-1, -2]


class ItsTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield ctx.timestamp()


def test_results_have_the_time_of_their_record() -> None:
    assert results(timed([("a", 7)]).map(lambda value: value[0]).process(ItsTime())) == [7]


def test_no_timestamp_is_the_smallest_long() -> None:
    assert results(stream([1]).process(ItsTime())) == [LONG_MIN]


# --- keyed streams ------------------------------------------------------------------------------


def test_keys_are_equal_as_python_says_not_as_their_pickles_are() -> None:
    ones = stream([(1, 1), (1.0, 1), (True, 1)]).key_by(lambda value: value[0]).sum(1)
    assert [count for _, count in results(ones)] == [1, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        KeyedStream.shuffle,
        KeyedStream.rescale,
        KeyedStream.rebalance,
        KeyedStream.forward,
        KeyedStream.broadcast,
        KeyedStream.cache,
        KeyedStream.get_name,
        KeyedStream.force_non_parallel,
        KeyedStream.start_new_chain,
        KeyedStream.disable_chaining,
        lambda keyed: keyed.partition_custom(lambda key, _: 0, lambda value: value),
        lambda keyed: keyed.name("n"),
        lambda keyed: keyed.uid("u"),
        lambda keyed: keyed.set_uid_hash("0" * 32),
        lambda keyed: keyed.set_parallelism(1),
        lambda keyed: keyed.set_max_parallelism(1),
        lambda keyed: keyed.set_buffer_timeout(1),
        lambda keyed: keyed.slot_sharing_group("g"),
    ],
)
def test_a_keyed_stream_refuses_what_belongs_to_a_step(call: Any) -> None:
    with pytest.raises(GraphError, match="keyed stream"):
        call(stream([1]).key_by(lambda value: value))


def test_key_by_on_a_keyed_stream_keys_the_original_anew() -> None:
    keyed = stream([(1, "a"), (2, "a")]).key_by(lambda value: value[0]).key_by(lambda value: value[1])
    assert results(keyed.sum(0)) == [(1, "a"), (3, "a")]


def test_collecting_a_keyed_stream_gives_its_records_without_the_key() -> None:
    assert results(stream([(1, "a")]).key_by(lambda value: value[0])) == [(1, "a")]


def test_sum_takes_a_position_or_a_name_and_keeps_the_other_fields() -> None:
    named = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    rows = [Row(k="a", n=1), Row(k="a", n=3)]
    for field in (1, "n"):
        assert results(stream([("a", 1), ("a", 2)], named).key_by(lambda row: row.k).sum(field)) == rows
    assert results(stream([1, 2]).key_by(lambda _: 0).sum()) == [1, 3]
    with pytest.raises(JobFailedError, match="only position 0"):
        results(stream([1, 2]).key_by(lambda _: 0).sum(1))


def test_max_changes_one_field_and_max_by_keeps_the_first_of_equals() -> None:
    values = [("a", 1, "x"), ("a", 3, "y"), ("a", 3, "z")]
    by_key = stream(values).key_by(lambda value: value[0])
    assert results(by_key.max(1))[-1] == ("a", 3, "x")
    assert results(by_key.max_by(1))[-1] == ("a", 3, "y")
    assert results(by_key.min(1))[-1] == ("a", 1, "x")
    assert results(by_key.min_by(1))[-1] == ("a", 1, "x")


# --- errors, metrics, asynchronous functions ----------------------------------------------------


def test_an_error_has_the_message_step_record_and_traceback_of_the_python_error() -> None:
    with pytest.raises(JobFailedError, match="invalid literal") as error:
        results(stream(["x"]).map(int).name("to number"))
    assert "to number" in str(error.value) and "'x'" in str(error.value)


class Measured(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group().add_group("mine")
        self.counter = group.counter("records")
        self.meter = group.meter("rate")
        self.distribution = group.distribution("sizes")
        group.gauge("last", lambda: 1)

    def map(self, value: Any) -> Any:
        self.counter.inc()
        self.meter.mark_event()
        self.distribution.update(value)
        return self.counter.get_count()


def test_functions_have_counters_meters_gauges_and_distributions() -> None:
    assert results(stream([1, 2]).map(Measured())) == [1, 2]


class Answers(AsyncFunction[Any, Any]):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def async_invoke(self, value: Any) -> Any:
        return self.answer


def test_an_async_function_answers_with_a_list() -> None:
    def ask(answer: Any) -> list[Any]:
        return results(AsyncDataStream.ordered_wait(stream([1]), Answers(answer), 1000))

    assert ask([5, 6]) == [5, 6]
    with pytest.raises(JobFailedError, match=r"(?i)none"):
        ask(None)
    with pytest.raises(JobFailedError, match="list"):
        ask(5)
