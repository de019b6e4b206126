"""The engine's own windows, verified in all runs on random inputs, late records included."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.datastream.functions import ProcessWindowFunction, ReduceFunction
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.columnar.aggregates import Count, Sum
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.operator import Operator
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents, ReduceContents
from penstock.testing.verify import EndOfInput, ProcessingTimeTo, Record, WatermarkTo, verify


class Show(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield key, context.window().start, [number for _, number in elements]


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


def showing(assigner: Any, **options: Any) -> Operator:
    return WindowOperator(assigner, ListContents(), Show(), **options)


def adding(assigner: Any, **options: Any) -> Operator:
    return WindowOperator(assigner, ReduceContents(Add()), **options)


LATE = {"allowed_lateness_ms": 30, "late_tag": "late"}
WINDOWS: dict[str, Callable[[], Operator]] = {
    "tumbling": lambda: adding(TumblingEventTimeWindows.of(50)),
    "tumbling late": lambda: showing(TumblingEventTimeWindows.of(50), **LATE),
    "sliding": lambda: adding(SlidingEventTimeWindows.of(60, 20), late_tag="late"),
    "session": lambda: showing(EventTimeSessionWindows.with_gap(30), late_tag="late"),
    "session late": lambda: adding(EventTimeSessionWindows.with_gap(30), **LATE),
    "tumbling by the clock": lambda: showing(TumblingProcessingTimeWindows.of(50)),
    "session by the clock": lambda: showing(ProcessingTimeSessionWindows.with_gap(30)),
    "every second record": lambda: showing(TumblingEventTimeWindows.of(80), trigger=CountTrigger.of(2)),
}


def story(rng: random.Random, record: Callable[[str, int, int], Any]) -> list[Any]:
    """Records of three keys, out of order and some of them late, watermarks and clock."""
    items: list[Any] = []
    time, watermark = 0, 0
    for n in range(16):
        kind = rng.random()
        if kind < 0.2:
            watermark = max(watermark, time - rng.randint(0, 60))
            items.append(WatermarkTo(watermark))
        elif kind < 0.3:
            items.append(ProcessingTimeTo(20 * n))
        else:
            time += rng.randint(0, 40)
            items.append(record(rng.choice("abc"), n, max(0, time - rng.randint(0, 80))))
    return [*items, record("a", 99, time), ProcessingTimeTo(10_000), EndOfInput()]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_give_the_same_in_all_runs(name: str, seed: int) -> None:
    items = story(random.Random(seed), lambda key, number, time: Record((key, number), time))
    verify(WINDOWS[name], keyed_by=lambda value: value[0]).input(items).matches_itself()


def column_batch(key: str, number: int, time: int) -> Batch:
    """Two records."""
    columns = pa.record_batch({"k": [key, "d"], "n": [number, 2 * number]})
    return Batch.of_columns(columns, np.array([time, time + 5], np.int64), ("k",))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_columnar_windows_give_the_same_in_all_runs(seed: int) -> None:
    """Without allowed lateness: with it, they fire again once per batch, as their page says."""

    def windows() -> Operator:
        return ColumnarWindowOperator(("k",), Panes(60, 20, 0), (Count("c"), Sum("n", "s")), late_tag="late")

    verify(windows).input(story(random.Random(seed), column_batch)).matches_itself()
