"""A function that takes its time holds nothing back: each result is given on before the next one is made.

The functions here make their second result only when somebody has seen the first one.  PyFlink 2.3.0 gave the
results of the same programs, with sleeps of half a second, at the end of a bundle: nine of them after 5 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

VALUES = list(range(40))


def gated(seen: Path) -> Callable[[int], int]:
    """All but the first value wait until the first one was seen."""

    def wait(value: int) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while value and not seen.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody has seen the first result")
            time.sleep(0.002)
        return value

    return wait


class Waiting(ProcessFunction):
    def __init__(self, wait: Callable[[int], int]) -> None:
        self._wait = wait

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield self._wait(value)


def made_by_map(values: DataStream, wait: Callable[[int], int]) -> DataStream:
    return values.map(wait)


def kept_by_filter(values: DataStream, wait: Callable[[int], int]) -> DataStream:
    return values.filter(lambda value: wait(value) is not None)


def processed(values: DataStream, wait: Callable[[int], int]) -> DataStream:
    return values.process(Waiting(wait))


def made_of_one_record(values: DataStream, wait: Callable[[int], int]) -> DataStream:
    def all_of_them(value: int) -> Iterator[int]:
        yield from map(wait, VALUES if not value else ())

    return values.flat_map(all_of_them)


def behind_a_burst(values: DataStream, wait: Callable[[int], int]) -> DataStream:
    return values.flat_map(lambda value: [] if value else VALUES).map(wait)


@pytest.mark.parametrize("apart", [False, True], ids=["in the same task", "in a task of its own"])
@pytest.mark.parametrize(
    "steps", [made_by_map, kept_by_filter, processed, made_of_one_record, behind_a_burst]
)
def test_the_first_result_is_there_before_the_second_is_made(
    steps: Callable[[DataStream, Any], DataStream], apart: bool, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    with local_cluster():
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        results = steps(env.from_collection(VALUES), gated(seen))
        if apart:
            results = results.key_by(lambda value: 0).map(lambda value: value)
        with results.execute_and_collect() as found:
            assert next(found) == 0
            seen.touch()
            assert list(found) == VALUES[1:]
