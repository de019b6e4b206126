"""The examples in BATCH mode: the very tests that hold for them as streams.

Those below ``examples/savepoints`` are about snapshots, which BATCH does not have; ``frames_totals`` needs
Spark and is in ``tests/spark/jobs/frames.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local_jobs import NO_TIME, collect, environment
from test_join_examples import service as service
from test_join_examples import test_enrichment as test_enrichment
from test_join_examples import test_slowly_changing as test_slowly_changing
from test_time_examples import example
from test_time_examples import test_deduplication as test_deduplication
from test_time_examples import test_hourly_counts_and_early_alerts as test_hourly_counts_and_early_alerts
from test_time_examples import (
    test_hourly_counts_from_topic_to_topic as test_hourly_counts_from_topic_to_topic,
)
from test_time_examples import test_sensor_alert as test_sensor_alert
from test_time_examples import test_sensor_average as test_sensor_average
from test_time_examples import test_sessions_are_one_line_away as test_sessions_are_one_line_away
from test_time_examples import test_top_n_per_window as test_top_n_per_window

from penstock.batch.job import BatchRun
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.job import Program, run_as
from penstock.datastream.window import EventTimeSessionWindows
from penstock.testing import local
from penstock.testing.local import LocalLauncher, local_cluster


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    """A cluster on which the first job must turn out to be a BATCH job."""
    started: list[Any] = []
    real = LocalLauncher.launch

    def launch(self: LocalLauncher, spec: Any) -> Any:
        started.append(real(self, spec))
        return started[-1]

    monkeypatch.setattr(local.LocalLauncher, "launch", launch)
    batch = Program(overrides={"execution.runtime-mode": "BATCH"})
    with run_as(batch), local_cluster(slots=2) as launcher:
        yield launcher
    assert started and isinstance(started[0], BatchRun)


def both(build: Any) -> tuple[list[Any], list[Any]]:
    """Results as a stream and in BATCH mode."""
    batch = collect(build(environment().set_parallelism(2)))
    with run_as(Program(LocalLauncher(2))):
        return collect(build(environment().set_parallelism(2))), batch


def test_online_regression() -> None:
    module = example("online_regression")

    def build(env: StreamExecutionEnvironment) -> Any:
        source = DataGeneratorSource(module.reading, 300)
        return module.build(env.from_source(source, NO_TIME, "readings").set_parallelism(1))

    stream, batch = both(build)
    assert batch == stream and len(batch) == 300


def test_session_numbers() -> None:
    """Sessions by number, which a count in keyed state gives them, whatever the mode."""
    module = example("testing.session_bug")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda click, _: click[1]
    )

    def build(env: StreamExecutionEnvironment) -> Any:
        clicks = env.from_collection(sorted(sum(module.CLICKS, []), key=lambda click: click[1]))
        timed = clicks.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
        keyed = timed.key_by(lambda click: click[0])
        return keyed.window(EventTimeSessionWindows.with_gap(module.GAP_MS)).process(module.NumberSessions())

    stream, batch = both(build)
    assert batch == stream and len(batch) == 40 and max(number for _, number, _ in batch) == 10


def test_temperature_pattern() -> None:
    module = example("temperature_pattern")
    stream, batch = both(lambda env: module.build(env, module.READINGS))
    assert batch == stream and len(batch) == 1
