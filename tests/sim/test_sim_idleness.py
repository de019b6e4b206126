"""Idleness of a millisecond over splits that always have a record at hand: none of them may come late.

Whatever looks silent here only was not asked: its splits are under way, or its slot was busy elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from sim_graphs import Env

from penstock.common import WatermarkStrategy
from penstock.connectors.source import Source
from penstock.datastream import ProcessWindowFunction
from penstock.datastream.connectors.hybrid_source import HybridSource, backfilled
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import Faults, SimSink, SimSource, simulate

_SWITCH = 600
_STEP = 10
_AT_ONCE = 1e7
_IMPATIENT = (
    WatermarkStrategy.for_monotonous_timestamps()
    .with_timestamp_assigner(lambda value, _: value[1])
    .with_idleness(1)
)


class Count(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield key, context.window().start, len(list(elements))


def ready(splits: int, start: int, end: int) -> SimSource:
    """Splits in the order of time that never make their reader wait."""
    times = range(start, end, _STEP)
    return SimSource([[(split, time) for time in times] for split in range(splits)], rate=_AT_ONCE)


def backfill() -> Source:
    return backfilled(ready(3, 0, _SWITCH), ready(2, _SWITCH, 2 * _SWITCH), _SWITCH, _IMPATIENT)


def hybrid() -> Source:
    return HybridSource([ready(3, 0, _SWITCH), ready(2, _SWITCH, 2 * _SWITCH)])


def alone() -> Source:
    return ready(3, 0, _SWITCH)


@pytest.mark.parametrize("make", [backfill, hybrid, alone])
def test_nothing_is_late(make: Callable[[], Source]) -> None:
    def job(env: Env) -> None:
        stream = env.from_source(make(), _IMPATIENT, "in").uid("in")
        windows = stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(50))
        windows.process(Count()).uid("count").sink_to(SimSink("out")).uid("out")

    assert simulate(job, range(20), Faults.all(), slots=2).snapshots > 0
