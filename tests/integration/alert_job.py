"""A job that is well until it is told otherwise: by files, since its functions run in other places."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_jobs import environment, until

from penstock.common import WatermarkStrategy
from penstock.connectors.builtin.datagen import DataGeneratorSource
from penstock.connectors.log import LogSource, Text
from penstock.connectors.log.topic import Topic
from penstock.coordinator.running_job import RunningJob
from penstock.core.job import JobStatus
from penstock.datastream import MapFunction, RuntimeContext
from penstock.rest.serving import Serving, serve
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

BEHIND_MS = 600_000
SETTINGS = {
    "rest__port": "0",
    "penstock__channel__bytes": "32 kb",
    "penstock__batch__max_rows": "32",
    "execution__checkpointing__interval": "1 s",
    "execution__checkpointing__tolerable_failed_checkpoints": "100000",
}


class Unpicklable:
    """Cannot be written."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Unpicklable:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("this cannot be pickled")


class Troubled(MapFunction):
    """Slow while a file ``slow`` is there; its state cannot be written while ``unwritable`` is."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_operator_list_state("odd")

    def map(self, value: Any) -> Any:
        self._state.update([Unpicklable() if (self._place / "unwritable").exists() else 1])
        if (self._place / "slow").exists():
            time.sleep(0.02)
        return value


@dataclass
class Watched:
    """The job, and where its troubles are made."""

    launcher: LocalLauncher
    job: RunningJob
    serving: Serving
    place: Path

    @contextmanager
    def trouble(self, kind: str) -> Iterator[None]:
        """It has this trouble meanwhile."""
        (self.place / kind).touch()
        yield
        (self.place / kind).unlink()


@contextmanager
def too_slow(place: Path, topic: Topic) -> Iterator[Watched]:
    """A job that reads a topic of the embedded log, a few records a second."""

    def slow(value: str) -> str:
        time.sleep(0.05)
        return value

    env = environment(place / "checkpoints", **{**SETTINGS, "penstock__batch__max_rows": "4"})
    with local_cluster(1) as launcher:
        source = LogSource(str(topic.path.parent), topic.name, Text())
        env.from_source(source, WatermarkStrategy.no_watermarks(), "log").map(slow).print()
        env.execute_async("too slow")
        with _served(launcher, place) as job:
            yield job


@contextmanager
def watched(place: Path, behind_ms: int = 0) -> Iterator[Watched]:
    """The job, running, with a checkpoint behind it. ``behind_ms``: event time stands still that long ago."""
    stuck = int(time.time() * 1000) - behind_ms if behind_ms else None

    def record(number: int) -> tuple[int, str]:
        return stuck or int(time.time() * 1000), "x" * 500

    env = environment(place / "checkpoints", **SETTINGS)
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value[0]
    )
    with local_cluster(2) as launcher:
        source = DataGeneratorSource(record, rate_per_second=400)
        stream = env.from_source(source, strategy, "events")
        stream.rebalance().map(Troubled(place)).uid("troubled").filter(lambda value: False).print()
        env.execute_async("watched")
        with _served(launcher, place) as job:
            yield job


@contextmanager
def _served(launcher: LocalLauncher, place: Path) -> Iterator[Watched]:
    job = launcher.jobs[-1]
    serving = serve(job)
    assert serving is not None
    try:
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
        until(lambda: job.history.view().checkpoint_counts["completed"], "a checkpoint is complete")
        yield Watched(launcher, job, serving, place)
    finally:
        job.cancel().result(PATIENCE_S)
        serving.close()
