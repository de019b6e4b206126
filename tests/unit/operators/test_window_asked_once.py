"""Triggers that are asked once, and evictors: the same results as when a trigger is asked each time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import Average, PlainEventTimeTrigger, Show, ShowProcess, Sum, dropped

from penstock.core.ids import MAX_TIME
from penstock.operators.functions import ReduceFunction
from penstock.operators.window import asked_once
from penstock.operators.window.asked_once import is_asked_once, waits_for_the_end
from penstock.operators.window.assigners import (
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.window.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from penstock.operators.window.evictors import CountEvictor, TimeEvictor
from penstock.operators.window.functions import ProcessWindowFunction, WindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents


class Continuous(ContinuousEventTimeTrigger[Any]):
    """The trigger in all but name: it is asked for each element."""


class Purging(PurgingTrigger[Any, Any]):
    """The same."""


TRIGGERS: list[tuple[Any, Any]] = [
    (EventTimeTrigger(), PlainEventTimeTrigger()),
    (ContinuousEventTimeTrigger(3), Continuous(3)),
    (PurgingTrigger(ContinuousEventTimeTrigger(4)), Purging(Continuous(4))),
    (PurgingTrigger(EventTimeTrigger()), Purging(PlainEventTimeTrigger())),
]
"""One that is asked once, and the same asked each time."""
EVICTORS: list[Any] = [None, CountEvictor(2), CountEvictor(3, True), TimeEvictor(4), TimeEvictor(2, True)]
ASSIGNERS = [
    TumblingEventTimeWindows(10, 0),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(12, 4, 1),
]
KINDS: list[Any] = [
    lambda: (ListContents(), Show()),
    lambda: (ListContents(), ShowProcess()),
    lambda: (ReduceContents(Sum()), None),
    lambda: (AggregateContents(Average()), None),
]

element = st.tuples(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.integers(-40, 80))
steps = st.lists(
    st.one_of(
        st.lists(element, min_size=1, max_size=8),
        st.integers(0, 25),
        st.sampled_from(["snapshot", "swap", "freeze"]),
    ),
    max_size=25,
)


class Trial:
    """Plays a script, and starts anew with the other trigger where it says "swap"."""

    def __init__(
        self, assigner: Any, kind: Any, triggers: tuple[Any, Any], evictor: Any, lateness: int = 0
    ) -> None:
        self.parts = assigner, kind, triggers, evictor
        self.lateness = lateness
        self.at = 0
        self.harness = OperatorHarness(self.operator())

    def operator(self) -> WindowOperator:
        assigner, kind, triggers, evictor = self.parts
        contents, function = kind()
        trigger = triggers[self.at]
        return WindowOperator(
            assigner,
            contents,
            function,
            trigger=trigger,
            allowed_lateness_ms=self.lateness,
            late_tag="late",
            evictor=evictor,
        )

    def play(self, script: list[Any], swaps: bool) -> Any:
        watermark, log = -50, []
        for step in [*script, MAX_TIME + 50]:
            if isinstance(step, list):
                self.harness.send(*step)
            elif isinstance(step, int):
                watermark = min(watermark + step, MAX_TIME)
                self.harness.watermark(watermark)
            elif step == "freeze":
                self.harness.keyed.freeze()
            else:
                self.at = 1 - self.at if step == "swap" and swaps else self.at
                stored = self.harness.snapshot()
                self.harness = OperatorHarness(self.operator(), restored=stored)
                self.harness.watermark(watermark)
            # Timers of one moment have no order.
            results = sorted(self.harness.take(), key=lambda result: (result[1], repr(result)))
            log.append((results, self.harness.take_side("late")))
        assert self.harness.table_sizes() == {}
        return log


@settings(max_examples=150, deadline=None)
@given(
    script=steps,
    assigner=st.sampled_from(ASSIGNERS),
    kind=st.sampled_from(KINDS),
    triggers=st.sampled_from(TRIGGERS),
    evictor=st.sampled_from(EVICTORS),
)
def test_asked_once_or_each_time(script: Any, assigner: Any, kind: Any, triggers: Any, evictor: Any) -> None:
    once = Trial(assigner, kind, triggers, evictor)
    each = Trial(assigner, kind, triggers[::-1], evictor).play(script, False)
    assert once.play(script, False) == each
    assert Trial(assigner, kind, triggers, evictor).play(script, True) == each


@settings(max_examples=150, deadline=None)
@given(
    script=steps,
    assigner=st.sampled_from(ASSIGNERS),
    kind=st.sampled_from(KINDS[:3]),
    triggers=st.sampled_from(TRIGGERS),
    evictor=st.sampled_from(EVICTORS),
    lateness=st.sampled_from([1, 8, 30, 200]),
)
def test_with_lateness(
    script: Any, assigner: Any, kind: Any, triggers: Any, evictor: Any, lateness: int
) -> None:
    each = Trial(assigner, kind, triggers[::-1], evictor, lateness).play(script, False)
    assert Trial(assigner, kind, triggers, evictor, lateness).play(script, False) == each
    assert Trial(assigner, kind, triggers, evictor, lateness).play(script, True) == each


@pytest.mark.parametrize("assigner", ASSIGNERS)
def test_windows_with_lateness_take_batches_and_late_elements_one_by_one(assigner: Any) -> None:
    operator = WindowOperator(assigner, ListContents(), Show(), allowed_lateness_ms=50)
    alone: list[Any] = []
    harness = OperatorHarness(operator)
    on_element = operator._on_element
    operator._on_element = lambda *args, **more: (alone.append(args[0]), on_element(*args, **more))  # type: ignore[assignment,func-returns-value]
    harness.send(*((("a", n), n) for n in range(40, 60)))
    assert not alone
    harness.watermark(100)
    harness.send((("a", 1), 140), (("a", 2), 85), (("b", 3), 150), (("a", 4), 84))
    assert alone == [("a", 2), ("a", 4)]


class Joined(ReduceFunction):
    """Adds digits to the first element, which it changes."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        value1[1] = value1[1] * 10 + value2[1]
        return value1


@pytest.mark.parametrize("kind", [lambda: (ListContents(), Show()), lambda: (ReduceContents(Joined()), None)])
@pytest.mark.parametrize("trigger", [once for once, _ in TRIGGERS])
def test_records_keep_their_order_in_a_window_where_some_have_others_that_ended(
    kind: Any, trigger: Any
) -> None:
    """Those that come after the end of one of their windows were put behind the rest of their batch."""
    contents, function = kind()
    sliding = SlidingEventTimeWindows[Any](12, 4, 0)
    operator = WindowOperator(sliding, contents, function, trigger=trigger, allowed_lateness_ms=50)
    harness = OperatorHarness(operator)
    harness.watermark(11)
    harness.send((["a", 1], 8), (["a", 2], 12), (["a", 3], 9), (["a", 4], 13))
    late = harness.take_values()
    harness.watermark(MAX_TIME)
    found = [value[-1] for value in late + harness.take_values()]
    purges = isinstance(trigger, PurgingTrigger)
    if function is None:
        assert found[:2] == [1, 3 if purges else 13] and {1234, 24} <= set(found)
    else:
        assert found[:2] == [[1], [3] if purges else [1, 3]]
        assert [1, 2, 3, 4] in found and [2, 4] in found and [2, 4, 1, 3] not in found


def test_only_triggers_that_fire_by_timers_are_asked_once() -> None:
    assert all(is_asked_once(once) and not is_asked_once(each) for once, each in TRIGGERS)
    assert not is_asked_once(CountTrigger(2))
    assert not is_asked_once(PurgingTrigger(CountTrigger(2)))
    assert not is_asked_once(ContinuousProcessingTimeTrigger(2))


class AtTheEnd(EndOfStreamTrigger[Any]):
    """The trigger in all but name."""


@settings(max_examples=50, deadline=None)
@given(script=steps, kind=st.sampled_from(KINDS), evictor=st.sampled_from(EVICTORS))
def test_the_global_window_that_waits_for_the_end(script: Any, kind: Any, evictor: Any) -> None:
    class Show(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield key, [number for _, number in inputs]

    made = (lambda: (ListContents(), Show())) if kind is KINDS[0] or kind is KINDS[1] else kind
    triggers = PurgingTrigger(EndOfStreamTrigger()), PurgingTrigger(AtTheEnd())
    assert waits_for_the_end(GlobalWindows(), triggers[0]) and not waits_for_the_end(
        GlobalWindows(), triggers[1]
    )
    each = Trial(GlobalWindows(), made, triggers[::-1], evictor).play(script, False)
    assert Trial(GlobalWindows(), made, triggers, evictor).play(script, False) == each
    assert Trial(GlobalWindows(), made, triggers, evictor).play(script, True) == each


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_once, "_MOST_REMEMBERED", 3)
    operator = WindowOperator(ASSIGNERS[0], ListContents(), Show(), trigger=ContinuousEventTimeTrigger(4))
    harness = OperatorHarness(operator)
    for number in range(6):
        harness.send(*(((key, number), number) for key in "abcd"[: number + 1]))
        harness.watermark(number)
    harness.watermark(MAX_TIME)
    assert [value for value, _ in harness.take()][-4:] == [
        (key, (0, 10), list(range(first, 6))) for first, key in enumerate("abcd")
    ]
    assert harness.table_sizes() == {} and dropped(harness) == 0


class Careless(ProcessWindowFunction[Any, Any, Any, Any]):
    """Changes the elements that it is given."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, [element[1] for element in elements]
        for element in elements:
            element[1] += 100


@pytest.mark.parametrize("evictor", [None, CountEvictor(9)])
@pytest.mark.parametrize(
    ("assigner", "interval"), [(TumblingEventTimeWindows(12, 0), 4), (SlidingEventTimeWindows(12, 4, 0), 50)]
)
def test_elements_that_are_seen_again_are_copied(assigner: Any, interval: int, evictor: Any) -> None:
    """Of one window that fires three times, or of three that fire once."""
    trigger = ContinuousEventTimeTrigger(interval)
    harness = OperatorHarness(
        WindowOperator(assigner, ListContents(), Careless(), trigger=trigger, evictor=evictor)
    )
    harness.send((["a", 1], 1), (["a", 2], 2))
    harness.watermark(MAX_TIME)
    assert [numbers for _, numbers in harness.take_values()] == [[1, 2]] * 3
