"""A function that takes its time holds nothing back: a result is there before the next ones are made.

Functions wait here until somebody has seen the results before theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_jobs import until

from penstock.core.clock import ManualClock
from penstock.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from penstock.testing.local import local_cluster

VALUES = list(range(24))


class Told:
    """What the functions of a job know of its results. Found by name, so it is not copied."""

    clock = ManualClock()
    seen: list[Any] = []

    @classmethod
    def half_a_second(cls, value: int) -> int:
        """All but the last two results before this one must have been seen when it begins."""
        until(lambda: len(cls.seen) >= value - 1, f"{value - 1} results were seen")
        cls.clock.advance(500)
        return value


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    Told.clock, Told.seen = ManualClock(), []


class Processing(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield Told.half_a_second(value)


def made_by_map(values: DataStream) -> DataStream:
    return values.map(Told.half_a_second)


def kept_by_filter(values: DataStream) -> DataStream:
    return values.filter(lambda value: Told.half_a_second(value) is not None)


def processed(values: DataStream) -> DataStream:
    return values.process(Processing())


def listed(values: DataStream) -> DataStream:
    return values.flat_map(lambda value: [Told.half_a_second(value)])


@pytest.mark.parametrize("apart", [False, True], ids=["in the same task", "in the next task"])
@pytest.mark.parametrize("steps", [made_by_map, kept_by_filter, processed, listed])
def test_results_of_a_slow_function_are_there_before_more_are_made(
    steps: Callable[[DataStream], DataStream], apart: bool
) -> None:
    """Two records are tried together now and then, to learn whether that costs more than one."""
    with local_cluster(clock=Told.clock):
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        stream = steps(env.from_collection(VALUES))
        if apart:
            stream = stream.key_by(lambda value: 0).map(lambda value: value)
        with stream.execute_and_collect() as found:
            for value in found:
                Told.seen.append(value)
        assert Told.seen == VALUES
