"""Window functions: contexts, state, side outputs, life cycle, errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from operator_harness import OperatorHarness
from window_samples import Average, Listing, PlainEventTimeTrigger, Sum

from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.functions import AggregateFunction, ReduceFunction
from penstock.operators.output_tag import OutputTag
from penstock.operators.window.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from penstock.operators.window.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import CountTrigger
from penstock.operators.window.window_state import (
    AggregateContents,
    ListContents,
    ReduceContents,
    WindowContents,
)
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

TEN = TumblingEventTimeWindows(10, 0)
BOTH = pytest.mark.parametrize("trigger", [None, PlainEventTimeTrigger()], ids=["fast", "general"])


class Facts(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield (
            key,
            tuple(context.window()),
            list(elements),
            context.current_watermark(),
            context.current_processing_time(),
        )


@BOTH
def test_the_context_knows_window_watermark_and_clock(trigger: Any) -> None:
    harness = OperatorHarness(WindowOperator(TEN, ListContents(), Facts(), trigger=trigger), start_ms=77)
    harness.send((("a", 1), 3))
    harness.watermark(15)
    assert harness.take_values() == [("a", (0, 10), [("a", 1)], 15, 77)]


@BOTH
@pytest.mark.parametrize(
    ("contents", "seen"),
    [(ReduceContents(Sum()), [("a", 3)]), (AggregateContents(Average()), [1.5])],
    ids=["reduce", "aggregate"],
)
def test_incremental_contents_show_exactly_one_element(
    trigger: Any, contents: WindowContents, seen: Any
) -> None:
    harness = OperatorHarness(WindowOperator(TEN, contents, Facts(), trigger=trigger))
    harness.send((("a", 1), 3), (("a", 2), 4))
    harness.watermark(9)
    [(key, _, elements, _, _)] = harness.take_values()
    assert (key, elements) == ("a", seen)


@BOTH
def test_a_plain_callable_reduces_too(trigger: Any) -> None:
    operator = WindowOperator(TEN, ReduceContents(lambda a, b: (a[0], a[1] * b[1])), trigger=trigger)
    harness = OperatorHarness(operator)
    harness.send((("a", 3), 3), (("a", 5), 4))
    harness.watermark(9)
    assert harness.take_values() == [("a", 15)]


class CountFirings(ProcessWindowFunction[Any, Any, Any, Any]):
    """Counts in window state and in global state under the same name, in every kind of state."""

    NAME = "n"

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        out = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(ValueStateDescriptor(self.NAME))
            state.update((state.value() or 0) + 1)
            out.append(state.value())
        yield (key, *out)

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor(self.NAME)).clear()


def test_window_state_ends_with_the_window_and_global_state_stays() -> None:
    def build() -> WindowOperator:
        return WindowOperator(TEN, ListContents(), CountFirings(), trigger=CountTrigger.of(1))

    harness = OperatorHarness(build())
    harness.send((("a", 0), 1), (("a", 0), 2), (("b", 0), 3))
    harness = OperatorHarness(build(), restored=harness.snapshot())
    harness.send((("a", 0), 12), (("a", 0), 4))
    assert harness.take_values() == [("a", 1, 3), ("a", 3, 4)]
    harness.watermark(MAX_TIME)
    assert harness.table_sizes() == {"n": 2}


def test_state_named_like_the_triggers_does_not_meet_it() -> None:
    class Count(CountFirings):
        NAME = "count"

    harness = OperatorHarness(WindowOperator(TEN, ListContents(), Count(), trigger=CountTrigger.of(2)))
    harness.send(*[(("a", 0), n) for n in range(4)])
    assert harness.take_values() == [("a", 1, 1), ("a", 2, 2)]


def test_window_state_offers_every_kind() -> None:
    class Kinds(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
            store = context.window_state()
            items = store.get_list_state(ListStateDescriptor("list"))
            items.add(key)
            names = store.get_map_state(MapStateDescriptor("map"))
            names.put(key, 1)
            total = store.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b))
            total.add(2)
            mean = store.get_aggregating_state(AggregatingStateDescriptor("mean", Average()))
            mean.add((key, 4))
            yield (list(items), list(names.items()), total.get(), mean.get())

    harness = OperatorHarness(WindowOperator(TEN, ListContents(), Kinds(), trigger=CountTrigger.of(1)))
    harness.send((("a", 0), 1), (("a", 0), 2), (("a", 0), 11))
    assert harness.take_values() == [
        (["a"], [("a", 1)], 2, 4.0),
        (["a", "a"], [("a", 1)], 4, 4.0),
        (["a"], [("a", 1)], 2, 4.0),
    ]


@BOTH
def test_side_outputs_by_tag_and_nothing_for_none(trigger: Any) -> None:
    class Split(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
            if key == "quiet":
                return None
            return [(OutputTag("odd") if n % 2 else "even", n) for _, n in inputs]

    harness = OperatorHarness(WindowOperator(TEN, ListContents(), Split(), trigger=trigger))
    harness.send((("a", 1), 1), (("a", 2), 2), (("quiet", 3), 3), (("b", 5), 3))
    harness.watermark(9)
    assert harness.take() == [(("even", 2), 9)]
    assert harness.take_side("odd") == [(1, 9), (5, 9)]


@BOTH
def test_functions_over_the_whole_stream(trigger: Any) -> None:
    class Apply(AllWindowFunction[Any, Any, Any]):
        def apply(self, window: Any, inputs: Iterable[Any]) -> Any:
            yield (tuple(window), len(list(inputs)))

    class Process(ProcessAllWindowFunction[Any, Any, Any]):
        def process(self, context: Any, elements: Iterable[Any]) -> Any:
            count = context.global_state().get_state(ValueStateDescriptor("windows"))
            count.update((count.value() or 0) + 1)
            yield (tuple(context.window()), len(list(elements)), count.value())

    for function, expected in (
        (Apply(), [((0, 10), 2), ((10, 20), 1)]),
        (Process(), [((0, 10), 2, 1), ((10, 20), 1, 2)]),
    ):
        operator = WindowOperator(TEN, ListContents(), function, trigger=trigger, keyed=False)
        harness = OperatorHarness(operator, key=None)
        harness.send((1, 1), (2, 2), (3, 13))
        harness.watermark(MAX_TIME)
        assert harness.take_values() == expected


def test_open_and_close_reach_every_function() -> None:
    calls: list[str] = []

    class Adds(ReduceFunction):
        def open(self, runtime_context: Any) -> None:
            calls.append(f"open reduce {runtime_context.get_index_of_this_subtask()}")

        def reduce(self, value1: Any, value2: Any) -> Any:
            return value1

        def close(self) -> None:
            calls.append("close reduce")

    class Passes(WindowFunction[Any, Any, Any, Any]):
        def open(self, runtime_context: Any) -> None:
            calls.append(f"open apply {runtime_context.get_task_name()}")

        def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
            return inputs

        def close(self) -> None:
            calls.append("close apply")

    harness = OperatorHarness(WindowOperator(TEN, ReduceContents(Adds()), Passes()))
    harness.operator.close()
    assert calls == ["open reduce 0", "open apply task", "close reduce", "close apply"]


class Keyed(AggregateFunction):
    """Uses keyed state inside add, to see whose turn it is."""

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        self._seen.update((self._seen.value() or 0) + 1)
        return self._seen.value() if value[1] is not None else None

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


@BOTH
def test_the_key_is_current_in_add_and_none_is_an_accumulator(trigger: Any) -> None:
    harness = OperatorHarness(WindowOperator(TEN, AggregateContents(Keyed()), trigger=trigger))
    harness.send((("a", 1), 1), (("b", 1), 1), (("a", 1), 2), (("c", None), 2))
    harness.watermark(9)
    assert harness.take_values() == [2, 1, None], "a window whose accumulator is None fires as well"
    assert harness.table_sizes() == {"seen": 3}


def test_results_already_emitted_do_not_change_with_the_accumulator() -> None:
    harness = OperatorHarness(
        WindowOperator(TEN, AggregateContents(Listing()), trigger=CountTrigger.of(1), allowed_lateness_ms=5)
    )
    harness.send((("a", 1), 1), (("a", 2), 2))
    assert harness.take_values() == [[1], [1, 2]]


@BOTH
def test_a_snapshot_being_written_is_not_disturbed(trigger: Any) -> None:
    for contents, before in (
        (ListContents(), [[("a", 1)]]),
        (AggregateContents(Listing()), [[1]]),
        (ReduceContents(Sum()), [("a", 1)]),
    ):
        harness = OperatorHarness(WindowOperator(TEN, contents, Facts(), trigger=trigger))
        harness.send((("a", 1), 1))
        frozen = {each.name: each for each in harness.keyed.freeze()}
        harness.send((("a", 2), 2), (("a", 3), 3))
        harness.watermark(9)
        assert len(harness.take()) == 1
        assert [value for _, value in frozen["_window/contents"].items()] == before
        for each in frozen.values():
            each.release()
        assert harness.table_sizes() == {}


@BOTH
def test_the_failing_record_is_known(trigger: Any) -> None:
    def divide(a: Any, b: Any) -> Any:
        return (a[0], a[1] / b[1])

    harness = OperatorHarness(WindowOperator(TEN, ReduceContents(divide), trigger=trigger))
    with pytest.raises(LookupError):
        harness.operator.current_record()
    with pytest.raises(ZeroDivisionError):
        harness.send((("a", 1), 1), (("b", 0), 1), (("a", 0), 2), (("a", 3), 3))
    assert harness.operator.current_record() == ("a", 0)


def test_no_record_is_to_blame_when_a_timer_fails() -> None:
    class Fails(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
            raise ZeroDivisionError

    harness = OperatorHarness(WindowOperator(TEN, ListContents(), Fails()))
    harness.send((("a", 1), 1))
    with pytest.raises(ZeroDivisionError):
        harness.watermark(9)
    with pytest.raises(LookupError):
        harness.operator.current_record()


def test_records_without_time_are_fine_in_processing_time() -> None:
    harness = OperatorHarness(WindowOperator(TumblingProcessingTimeWindows(10, 0), ListContents(), Facts()))
    harness.send((("a", 1), MIN_TIME))
    harness.clock_to(10)
    assert harness.take() == [(("a", (0, 10), [("a", 1)], MIN_TIME, 10), 9)]
