"""Between which times the records of a step lay, told with every snapshot."""

from __future__ import annotations

import numpy as np

from penstock.core.ids import MIN_TIME
from penstock.core.metrics import MetricGroup
from penstock.operators.event_times import EventTimes


def told(metrics: MetricGroup) -> dict[str, float]:
    return {name.removeprefix("eventTime"): value for name, value in metrics.snapshot().items()}


def test_each_barrier_tells_of_what_came_since_the_one_before() -> None:
    metrics = MetricGroup()
    times = EventTimes(metrics)
    times.saw(np.array([5, 9, 1], np.int64))
    times.saw(np.array([7], np.int64))
    assert told(metrics) == {}
    times.barrier()
    assert told(metrics) == {"Min": 1, "Max": 9, "Sum": 22, "Count": 4}
    times.saw(np.array([100], np.int64))
    assert told(metrics)["Max"] == 9, "it belongs to the next"
    times.barrier()
    assert told(metrics) == {"Min": 100, "Max": 100, "Sum": 100, "Count": 1}
    times.barrier()
    assert told(metrics) == {}


def test_records_without_times_say_nothing() -> None:
    metrics = MetricGroup()
    times = EventTimes(metrics)
    for nothing in (None, np.array([], np.int64), np.array([3, MIN_TIME], np.int64)):
        times.saw(nothing)
    times.barrier()
    assert told(metrics) == {}


def test_large_times_do_not_overflow() -> None:
    metrics = MetricGroup()
    times = EventTimes(metrics)
    times.saw(np.full(1000, 2**62, np.int64))
    times.barrier()
    found = told(metrics)
    assert found["Sum"] / found["Count"] == 2**62
