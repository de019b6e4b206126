"""Count windows a batch at a time: the same results, in the same order, as element by element."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import Average, Listing, Show, Sum

from penstock.core.ids import MAX_TIME
from penstock.operators.functions import ReduceFunction
from penstock.operators.window.counted import CountedWindows, counted_assigner
from penstock.operators.window.counting import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.operators.window.evictors import CountEvictor
from penstock.operators.window.functions import ProcessWindowFunction, WindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import CountTrigger, PurgingTrigger
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents
from penstock.state.descriptors import ValueStateDescriptor


class Purging(PurgingTrigger[Any, Any]):
    """The trigger in all but name: it is asked for each element."""


class Remember(ProcessWindowFunction[Any, Any, Any, Any]):
    """Numbers its windows in state of the key, and what it keeps for a window is gone with it."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        numbers = context.global_state().get_state(ValueStateDescriptor("windows"))
        numbers.update((numbers.value() or 0) + 1)
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        yield key, context.window().id, [number for _, number in elements], numbers.value(), firings.value()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings")).clear()


class ShowCount(WindowFunction[Any, Any, Any, Any]):
    """Key, number of the window, and numbers in order of arrival."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, window.id, [number for _, number in inputs]


KINDS: list[Any] = [
    lambda: (ListContents(), ShowCount()),
    lambda: (ListContents(), Remember()),
    lambda: (ReduceContents(Sum()), None),
    lambda: (AggregateContents(Average()), None),
    lambda: (AggregateContents(Listing()), None),
]
element = st.tuples(st.tuples(st.sampled_from("aaabc"), st.integers(0, 9)), st.integers(0, 80))
steps = st.lists(
    st.one_of(
        st.lists(element, min_size=1, max_size=25),
        st.integers(1, 6),
        st.sampled_from(["snapshot", "swap", "freeze"]),
    ),
    max_size=20,
)


def play(script: list[Any], kind: Any, limit: int | None, at: int, swaps: bool) -> list[Any]:
    """What comes out; numbers are new sizes of the windows. ``at`` is 1 for the way of single elements.

    ``limit`` is how many elements make the trigger fire, if not as many as a window has.
    """
    size = 3

    def operator() -> WindowOperator:
        contents, function = kind()
        trigger = (PurgingTrigger, Purging)[at](CountTrigger(limit or size))
        made = WindowOperator(CountTumblingWindowAssigner(size), contents, function, trigger=trigger)
        return made

    harness, log = OperatorHarness(operator()), []
    for step in script:
        if isinstance(step, list):
            harness.send(*step)
        elif step == "freeze":
            harness.keyed.freeze()
        else:
            size = step if isinstance(step, int) else size
            at = 1 - at if step == "swap" and swaps else at
            harness = OperatorHarness(operator(), restored=harness.snapshot())
        log.append(harness.take())
    return [*log, sorted(harness.table_sizes().items())]


@settings(max_examples=200, deadline=None)
@given(steps, st.sampled_from(KINDS), st.sampled_from([None, None, None, 1, 2, 5]))
def test_both_ways_agree_step_by_step(script: Any, kind: Any, limit: Any) -> None:
    one_by_one = play(script, kind, limit, 1, False)
    assert play(script, kind, limit, 0, False) == one_by_one
    assert play(script, kind, limit, 0, True) == one_by_one
    assert play(script, kind, limit, 1, True) == one_by_one


def test_a_batch_fills_windows_in_the_order_of_its_elements() -> None:
    harness = OperatorHarness(WindowOperator(CountTumblingWindowAssigner(2), ListContents(), ShowCount()))
    harness.send(*[((key, n), n) for n, key in enumerate("abbaabb")])
    wanted = [("b", 0, [1, 2]), ("a", 0, [0, 3]), ("b", 1, [5, 6])]
    assert harness.take() == [(value, MAX_TIME) for value in wanted]
    assert harness.table_sizes() == {"_window/contents": 1, "_trigger/count": 1, "tumble-count-assigner": 2}


def test_all_of_a_stream_without_keys() -> None:
    contents = ListContents()
    harness = OperatorHarness(
        WindowOperator(CountTumblingWindowAssigner(3), contents, ShowCount(), keyed=False), key=None
    )
    harness.send(*[(("x", n), n) for n in range(4)])
    harness.send(*[(("x", n), n) for n in range(4, 7)])
    assert harness.take_values() == [(0, 0, [0, 1, 2]), (0, 1, [3, 4, 5])]


class Fails(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise ZeroDivisionError


class Divides(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return (value1[0], value1[1] / value2[1])


@pytest.mark.parametrize(
    "kind", [lambda: (ListContents(), Fails()), lambda: (ReduceContents(Divides()), None)]
)
def test_the_failing_record_is_known(kind: Any) -> None:
    harness = OperatorHarness(WindowOperator(CountTumblingWindowAssigner(2), *kind()))
    with pytest.raises(LookupError):
        harness.operator.current_record()
    with pytest.raises(ZeroDivisionError):
        harness.send((("a", 1), 0), (("b", 1), 0), (("a", 0), 0), (("b", 1), 0))
    assert harness.operator.current_record() == ("a", 0)


def test_a_batch_of_many_windows_waits_where_the_outputs_are_full() -> None:
    harness = OperatorHarness(WindowOperator(CountTumblingWindowAssigner(1), ListContents(), ShowCount()))
    harness.operator.ctx.blocked = lambda: True
    harness.send(*[(("a", n), n) for n in range(5000)])
    assert len(harness.out.main) < 5000
    resumed = 0
    while harness.operator.suspended is not None:
        harness.operator.resume()
        resumed += 1
    assert resumed > 100
    assert [numbers for _, _, numbers in harness.take_values()] == [[n] for n in range(5000)]


def test_who_is_served() -> None:
    tumbling, trigger = CountTumblingWindowAssigner[Any](3), PurgingTrigger(CountTrigger[Any, Any](3))

    class Mine(CountTumblingWindowAssigner[Any]):
        pass

    assert counted_assigner(tumbling, trigger) == (tumbling, trigger.nested_trigger)
    assert counted_assigner(tumbling, CountTrigger(3)) is None
    assert counted_assigner(tumbling, Purging(CountTrigger(3))) is None
    assert counted_assigner(Mine(3), trigger) is None
    assert counted_assigner(CountSlidingWindowAssigner(3, 2), trigger) is None
    for evictor, served in ((None, True), (CountEvictor[Any, Any](1), False)):
        operator = WindowOperator(tumbling, ListContents(), Show(), evictor=evictor)
        OperatorHarness(operator)
        assert isinstance(operator._counted, CountedWindows) is served
