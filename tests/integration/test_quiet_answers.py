"""Answers that are wrong although nothing failed get a line: late records, a broken clock, wrong units."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from local_jobs import environment, until

from penstock.cep import CEP, Pattern
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.core.clock import SystemClock
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.columnar import Count
from penstock.testing.local import LocalLauncher, local_cluster

YEAR_2100 = 4_102_444_800_000
SECOND = 1000


@pytest.fixture
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "penstock"):
        yield caplog


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [line for line in (record.getMessage() for record in caplog.records) if what in line]


class Punctual(WatermarkGenerator):
    """A watermark behind every record, so that what is late does not depend on time."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def by(position: int) -> WatermarkStrategy:
    return WatermarkStrategy.for_generator(Punctual).with_timestamp_assigner(lambda value, _: value[position])


def timed(env: Any, times: list[int], strategy: WatermarkStrategy | None = None) -> Any:
    rows = env.from_collection([("k", time) for time in times])
    return rows.assign_timestamps_and_watermarks(strategy or by(1)).name("clicks")


def counted(stream: Any) -> list[Any]:
    windows = stream.key_by(lambda row: row[0]).window(TumblingEventTimeWindows.of(SECOND))
    return list(windows.reduce(lambda a, _: a).name("per second").execute_and_collect())


# --- one record from the year 2100 ---------------------------------------------------------------


def from_now_on(broken: int, count: int) -> list[int]:
    now = SystemClock().now_ms() // SECOND * SECOND - count * SECOND
    times = [now + i * SECOND for i in range(count)]
    times[broken] = YEAR_2100
    return times


def test_one_record_from_the_year_2100_is_told_and_what_it_made_late_is_counted(
    cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    found = counted(timed(environment().set_parallelism(1), from_now_on(318, 1000)))
    assert len(found) == 319
    (line,) = said(heard, "ahead of the clock")
    assert (
        "step 'clicks': the watermark is at 2099-12-31 23:59:59+00:00, " in line and "with_max_ahead" in line
    )
    (line,) = said(heard, "has dropped")
    assert "step 'per second' has dropped 681 late records in all: " in line
    assert cluster.jobs[-1].facts()["late_dropped"] == 681


def test_a_source_tells_it_once_for_all_its_subtasks_and_the_guard_keeps_it_quiet(
    cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    now = SystemClock().now_ms()
    source = DataGeneratorSource(lambda i: ("k", YEAR_2100 if i % 1000 == 500 else now + i), 4000)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1))
    strategy = strategy.with_timestamp_assigner(lambda value, _: value[1])
    env = environment().set_parallelism(2)
    list(env.from_source(source, strategy, "sensors").execute_and_collect())
    assert len(said(heard, "ahead of the clock")) == 1
    heard.clear()
    env = environment().set_parallelism(2)
    guarded = strategy.with_max_ahead(Duration.of_minutes(10))
    assert len(list(env.from_source(source, guarded, "sensors").execute_and_collect())) == 4000
    assert said(heard, "ahead of the clock") == []


# --- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [[0, 5_000, 10_000_000], [1, 1_800_000_000], [0], [SystemClock().now_ms()]])
def test_times_from_zero_and_times_in_milliseconds_are_left_alone(
    times: list[int], cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    assert len(counted(timed(environment().set_parallelism(1), times))) == len(times)
    assert [record.getMessage() for record in heard.records] == []


@pytest.mark.parametrize(
    ("factor", "unit", "way_out"),
    [
        (0.001, "look like seconds", "multiply them by 1000"),
        (1_000, "looks like microseconds", "divide them by 1,000"),
        (1_000_000, "looks like nanoseconds", "divide them by 1,000,000"),
    ],
)
def test_a_wrong_unit_is_told_once_with_the_factor(
    factor: float, unit: str, way_out: str, cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    now = SystemClock().now_ms()
    times = [int((now + i * 60_000) * factor) for i in range(100)]
    assert counted(timed(environment().set_parallelism(1), times))
    (line,) = said(heard, unit)
    assert "step 'clicks': event times are milliseconds, but " in line and way_out in line


def test_seconds_are_told_in_batch_mode_too(cluster: LocalLauncher, heard: pytest.LogCaptureFixture) -> None:
    now = SystemClock().now_ms() // SECOND
    env = environment(execution__runtime_mode="BATCH").set_parallelism(2)
    assert counted(timed(env, [now + i for i in range(100)]))
    assert len(said(heard, "look like seconds")) == 1


# --- every step that drops late records ----------------------------------------------------------


def make(index: Any) -> pa.RecordBatch:
    """The first record is far ahead of all others."""
    return pa.record_batch({"user": index * 0, "ts": [10**9 if i == 0 else 0 for i in index.tolist()]})


def steps(env: Any) -> dict[str, Any]:
    """Streams that drop late records, by the name of the step that does."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    events = env.from_source(DataGeneratorSource(make, 10**12, columns=True), strategy, "events")
    keyed = events.key_by("user")
    interval = keyed.interval_join(keyed).between(0, 1)
    temporal = keyed.temporal_join(keyed)
    tumbling = TumblingEventTimeWindows.of(10)
    windows = keyed.window(tumbling)
    sliding = keyed.window(SlidingEventTimeWindows.of(20, 10))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(5))
    alone = events.window_all(tumbling)
    joined = events.join(events).where("user").equal_to("user").window(tumbling)
    grouped = events.co_group(events).where("user").equal_to("user").window(tumbling)
    patterns = CEP.pattern(keyed, Pattern.begin("a"))

    def first(one: Any, _: Any) -> Any:
        return one

    return {
        "fixed windows": windows.reduce(first),
        "overlapping windows": sliding.reduce(first),
        "sessions": sessions.reduce(first),
        "all": alone.reduce(first),
        "columns": keyed.window(tumbling).agg(Count("n")),
        "interval join": interval.process(first),
        "interval join of columns": interval.columns(),
        "temporal join": temporal.process(first),
        "window join": joined.apply(first),
        "window join of columns": joined.columns(),
        "co-group": grouped.apply(lambda ones, _: ones[:1]),
        "pattern": patterns.select(lambda match: match["a"][0]),
    }


def test_every_step_that_drops_late_records_is_named_with_their_number(
    cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    env = environment(pipeline__late_records_interval="1 ms", pipeline__max_parallelism="2").set_parallelism(
        1
    )
    named = steps(env)
    for name, stream in named.items():
        stream.name(name).filter(lambda _: False).print()
    client = env.execute_async("late")
    for name in named:
        until(lambda name=name: said(heard, f"step {name!r} has dropped "), f"{name} tells")
    client.cancel().result()
    assert said(heard, "step 'pattern' has dropped ")[-1].count(" in all: ") == 1
