"""Shared panes behind a restore at which event time starts over: windows that had fired take late records."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.row import Row
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.operators.columnar.aggregates import Count, Sum
from penstock.operators.columnar.row_by_row import RowAggregate, RowResults
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import AggregateContents
from penstock.testing.operator_run import OperatorRun

AGGREGATES = (Count("c"), Sum("n", "s"))
LATENESS = 500
"""So that no window is closed."""


class OneByOne(SlidingEventTimeWindows[Any]):
    """Windows of a class of its own: each has contents and timers of its own, as panes must behave."""


def run_of(kind: Any, size: int, slide: int) -> OperatorRun:
    def make() -> WindowOperator:
        contents, results = AggregateContents(RowAggregate(AGGREGATES)), RowResults(("k",), AGGREGATES)
        return WindowOperator(kind(size, slide, 0), contents, results, allowed_lateness_ms=LATENESS)

    return OperatorRun(make)


def send(trial: OperatorRun, key: str, number: int, time: int) -> None:
    trial.process(Batch.of_rows([Row(k=key, n=number)], [time], [key]))


def shown(trial: OperatorRun) -> list[Any]:
    return [tuple(result.value.as_dict().values()) for result in trial.results]


def test_a_late_record_is_in_the_windows_that_had_fired_and_no_other_fires_again() -> None:
    trial = run_of(SlidingEventTimeWindows, 20, 10)
    send(trial, "a", 1, 5)
    send(trial, "a", 2, 15)
    trial.watermark(40)
    before = shown(trial)
    assert before == [("a", -10, 10, 1, 1), ("a", 0, 20, 2, 3), ("a", 10, 30, 1, 2)]
    trial.restore(2, told=False)
    send(trial, "a", 4, 6)
    trial.finish()
    assert shown(trial)[len(before) :] == [("a", -10, 10, 2, 5), ("a", 0, 20, 3, 7)]


@pytest.mark.parametrize(("size", "slide"), [(20, 10), (15, 10), (30, 5)])
def test_panes_and_windows_of_their_own_show_the_same_behind_restarts(size: int, slide: int) -> None:
    found: list[Counter[Any]] = []
    for kind in (SlidingEventTimeWindows, OneByOne):
        found.append(Counter())
        for seed in range(60):
            trial = played(run_of(kind, size, slide), random.Random(seed))
            found[-1].update((seed, *row) for row in shown(trial))
    assert found[0] == found[1] and found[0]


def played(trial: OperatorRun, rng: random.Random) -> OperatorRun:
    """Records around the watermark, watermarks, and restarts behind which they begin earlier.

    There is no second restart before event time is where it was.
    """
    watermark, furthest, starts_over = 0, 0, False
    for _ in range(rng.randint(3, 20)):
        what = rng.choice(["record", "record", "record", "watermark", "restart"])
        if what == "record":
            send(trial, rng.choice("ab"), rng.randint(0, 9), watermark + rng.randint(-40, 20))
        elif what == "watermark":
            watermark += rng.randint(-25, 10) if starts_over else rng.randint(0, 15)
            starts_over = False
            furthest = max(furthest, watermark)
            trial.watermark(watermark)
        else:
            watermark = furthest
            trial.watermark(watermark)
            starts_over = rng.random() < 0.7
            trial.restore(rng.randint(1, 2), told=not starts_over)
    trial.finish()
    return trial
