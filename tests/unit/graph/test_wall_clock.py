"""What a program asks of the wall clock is found without running it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from random import choice
from random import random as chance
from time import monotonic
from typing import Any
from uuid import UUID
from uuid import uuid4 as new_id

import pytest

from penstock.common import Time
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.window import (
    ContinuousProcessingTimeTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.graph.explain import wall_clock


class Timed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_processing_time_timer(1)
        yield value


class ByEventTime(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(1)
        yield value


def adds_noise(stream: Any) -> Any:
    def noisy(value: int) -> float:
        return value + random.random()

    return stream.map(noisy)


def windowed(stream: Any, assigner: Any) -> Any:
    return stream.key_by(lambda i: i).window(assigner).reduce(lambda a, b: a)


CLOCKED: dict[str, Callable[[Any], Any]] = {
    "sets processing-time timers": lambda s: s.key_by(lambda i: i).process(Timed()),
    "uses the time module": lambda s: s.map(lambda i: time.time()),
    "uses the random module": adds_noise,
    "has processing-time windows": lambda s: windowed(s, TumblingProcessingTimeWindows.of(Time.seconds(1))),
    "fires by the wall clock": lambda s: (
        s.key_by(lambda i: i)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .trigger(ContinuousProcessingTimeTrigger.of(Time.seconds(1)))
        .reduce(lambda a, b: a)
    ),
}
STEADY: list[Callable[[Any], Any]] = [
    lambda s: s.key_by(lambda i: i).process(ByEventTime()),
    lambda s: windowed(s, TumblingEventTimeWindows.of(Time.seconds(1))),
    lambda s: s.map(lambda i: i + 1).filter(lambda i: i > 2),
]


def explained(build: Callable[[Any], Any]) -> str:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    build(env.from_collection([1, 2])).print()
    return env.explain()


@pytest.mark.parametrize("reason", CLOCKED)
def test_explain_says_what_depends_on_the_clock(reason: str) -> None:
    assert reason in explained(CLOCKED[reason])


@pytest.mark.parametrize("build", STEADY)
def test_what_goes_by_event_time_is_not_accused(build: Callable[[Any], Any]) -> None:
    assert "wall clock" not in explained(build)


def clock() -> float:
    """A function of the program itself that is called like others are."""
    return 1.0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda i: monotonic(), "uses the time module"),
        (lambda i: choice([i, i]), "uses the random module"),
        (lambda i: chance(), "uses the random module"),
        (lambda i: new_id(), "makes random identifiers"),
    ],
)
def test_functions_that_were_imported_by_name_are_found(function: Callable[[Any], Any], reason: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(function).name("it")
    assert wall_clock(env.graph.nodes) == [f"step 'it' {reason}"]


def test_a_function_of_the_program_is_not_taken_for_another() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(lambda i: clock()).map(lambda i: UUID(int=i))
    assert wall_clock(env.graph.nodes) == []
