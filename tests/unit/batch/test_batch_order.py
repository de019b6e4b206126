"""The order in which a BATCH task reads: a second try must read as the first one did."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Time, Types, WatermarkStrategy
from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.testing.local import local_cluster


class Waiting(SplitReader):
    """Three records, each after as many polls without one as ``pauses`` says."""

    def __init__(self, name: str, pauses: list[int]) -> None:
        self._name = name
        self._left = list(pauses)
        self._number = 0

    def poll(self, max_rows: int) -> Batch | None:
        if not self._left:
            raise EndOfSplit
        self._left[0] -= 1
        if self._left[0] >= 0:
            return None
        del self._left[0]
        self._number += 1
        return Batch.of_rows([f"{self._name}{self._number}"])

    def position(self) -> int:
        return self._number


class Partitions(Source):
    """As of a server: a subtask reads several, and now one and now another has something."""

    def __init__(self, pauses: dict[str, list[int]]) -> None:
        self._pauses = pauses

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return FixedSplits(Split(name, pauses) for name, pauses in self._pauses.items())

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return Waiting(split.id, split.info)


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


@pytest.mark.parametrize("slow", [{"a": [0, 0, 0], "b": [0, 0, 0]}, {"a": [1, 0, 2], "b": [0, 1, 0]}])
def test_splits_whose_records_are_dealt_in_turn_are_read_one_after_the_other(
    slow: dict[str, list[int]],
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(1)
    source = env.from_source(Partitions(slow), WatermarkStrategy.no_watermarks(), "s", Types.STRING())
    dealt = source.rebalance().map(lambda value: value, Types.STRING()).set_parallelism(2)
    assert list(dealt.execute_and_collect()) == ["a1", "a3", "b2", "a2", "b1", "b3"]


@pytest.mark.parametrize("slow", [{"a": [0, 0, 0], "b": [0, 0, 0]}, {"a": [1, 0, 2], "b": [0, 1, 0]}])
def test_splits_behind_which_keys_depend_on_who_came_first_are_read_one_after_the_other(
    slow: dict[str, list[int]],
) -> None:
    """A number for each record as it comes, and the number decides where it goes: a second try agrees."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(1)
    source = env.from_source(Partitions(slow), WatermarkStrategy.no_watermarks(), "s", Types.STRING())
    counted = source.key_by(lambda value: "all").reduce(lambda all, one: f"{all},{one}")
    placed = counted.key_by(lambda value: value).map(lambda value: value, Types.STRING()).set_parallelism(2)
    assert list(placed.execute_and_collect()) == ["a1,a2,a3,b1,b2,b3"]


class FirstAnswersLast(AsyncFunction):
    """Answers nobody before all have asked, and then from the last to the first."""

    def __init__(self, count: int) -> None:
        self._count = count

    def open(self, runtime_context: Any) -> None:
        self._asked: list[asyncio.Event] = []

    async def async_invoke(self, value: int) -> list[int]:
        mine = asyncio.Event()
        self._asked.append(mine)
        if len(self._asked) == self._count:
            mine.set()
        await mine.wait()
        if value:
            self._asked[value - 1].set()
        return [value]


@pytest.mark.parametrize(("dealt", "seen"), [(True, [0, 2, 1, 3]), (False, [3, 2, 1, 0])])
def test_answers_that_are_dealt_in_turn_are_in_order(dealt: bool, seen: list[int]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(1)
    numbers = env.from_collection([0, 1, 2, 3], Types.INT())
    answers = AsyncDataStream.unordered_wait(numbers, FirstAnswersLast(4), Time.seconds(60), 10, Types.INT())
    if dealt:
        answers = answers.rebalance().map(lambda value: value, Types.INT()).set_parallelism(2)
    assert list(answers.execute_and_collect()) == seen
