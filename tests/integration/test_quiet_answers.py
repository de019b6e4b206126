"""Answers that are wrong although nothing failed get a line: late records, a broken clock, wrong units."""

from __future__ import annotations

import decimal
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import environment, until

from penstock.cep import CEP, Pattern
from penstock.columns import Count as NumberOf
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.core.clock import SystemClock
from penstock.datastream import KeyedProcessFunction, RuntimeContext, WindowFunction
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

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


# --- NaN as a key --------------------------------------------------------------------------------

ODD_NAN = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]
NANS = [float("nan"), ODD_NAN, np.float32("nan"), decimal.Decimal("nan"), decimal.Decimal("-sNaN"), math.nan]


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self._count.value()}"


def start_nan(work: Path, parallelism: int, backend: str, waits: bool, **settings: str) -> Any:
    env = environment(work / "chk", state__backend__type=backend, **settings).set_parallelism(parallelism)
    source = Pace(None, work / "gate" if waits else None).source(lambda number: number, 300)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    keyed = numbers.key_by(lambda n: NANS[n % len(NANS)] if n % 2 else 7.5)
    keyed.process(Count()).name("counts").uid("count").sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("nan")


@pytest.mark.parametrize(("before", "after"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_all_nan_are_one_key_through_savepoints_backends_and_parallelisms_and_it_is_told(
    before: str, after: str, tmp_path: Path, heard: pytest.LogCaptureFixture
) -> None:
    with local_cluster(slots=3):
        client = start_nan(tmp_path, 2, before, waits=True)
        until(lambda: len(read_text(tmp_path / "out")) >= 150, "half of the records are through")
        place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        assert len(said(heard, "step 'counts': some keys are NaN")) == 1
        heard.clear()
        start_nan(
            tmp_path, 3, after, waits=False, execution__state_recovery__path=place
        ).get_job_execution_result().result(PATIENCE_S)
    assert sorted(read_text(tmp_path / "out")) == sorted(
        f"{key} {count}" for key in ("7.5", "nan") for count in range(1, 151)
    )
    assert len(said(heard, "step 'counts': some keys are NaN")) == 1


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_in_a_key_column_is_one_key_to_rows_and_columns_and_is_told(
    kind: pa.DataType, cluster: LocalLauncher, heard: pytest.LogCaptureFixture
) -> None:
    def events(index: Any) -> pa.RecordBatch:
        keys = np.where(index % 2 == 0, np.where(index % 4 == 0, np.nan, ODD_NAN), index % 3)
        return pa.record_batch({"k": pa.array(keys).cast(kind), "ts": index})

    def stream() -> Any:
        env = environment().set_parallelism(2)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
        return env.from_source(DataGeneratorSource(events, 600, columns=True), strategy, "events").key_by("k")

    windows = TumblingEventTimeWindows.of(10_000)
    columns = stream().window(windows).agg(NumberOf("n")).execute_and_collect()
    found = sorted((f"{row['k']}", row["n"]) for row in columns)
    rows = stream().window(windows).apply(Sizes()).execute_and_collect()
    assert found == sorted(rows) == [("0.0", 100), ("1.0", 100), ("2.0", 100), ("nan", 300)]
    assert len(said(heard, "some keys are NaN")) == 2


class Sizes(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(f"{key}", len(list(inputs)))]


def test_numbers_of_other_kinds_are_not_told(cluster: LocalLauncher, heard: pytest.LogCaptureFixture) -> None:
    env = environment().set_parallelism(2)
    keys = [1.5, np.float64(2.5), decimal.Decimal("0.1"), math.inf, -0.0, (math.nan, 1)]
    found = list(
        env.from_collection(list(range(60)))
        .key_by(lambda n: keys[n % 6])
        .process(Count())
        .execute_and_collect()
    )
    assert len(found) == 60
    assert said(heard, "NaN") == []


# --- every step that drops late records ----------------------------------------------------------


def make(index: Any) -> pa.RecordBatch:
    """The first record is far ahead of all others."""
    return pa.record_batch({"user": index * 0, "ts": [10**9 if i == 0 else 0 for i in index.tolist()]})


def steps(env: Any) -> dict[str, Any]:
    """Streams that drop late records, by the name of the step that does."""
    strategy = WatermarkStrategy.for_generator(Punctual).with_timestamp_column("ts")
    events = env.from_source(DataGeneratorSource(make, 10**12, 500, columns=True), strategy, "events")
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
        "columns": keyed.window(tumbling).agg(NumberOf("n")),
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
