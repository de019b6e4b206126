"""The thread that waits for a gang's Spark job tells its end, whatever Spark does."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.events import AttemptEnded
from penstock.core.clock import SystemClock
from penstock.core.ids import Generation
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark import cluster as clusters
from tests.patience import PATIENCE_S


def job() -> Assembled:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    return assemble(env._spec("job"), default_parallelism=1)


class SlowSession:
    """A Spark session that has not begun the job when it is told to cancel it for the first time."""

    def __init__(self) -> None:
        self.sparkContext = self._jsc = self
        self.pythonExec = "python"
        self.cancelled: list[str] = []
        self._ended = threading.Event()

    def sc(self) -> Any:
        return self

    def isStopped(self) -> bool:
        return False

    def setJobGroup(self, *arguments: Any) -> None:
        pass

    def range(self, *arguments: Any, **named: Any) -> Any:
        return self

    mapInArrow = range

    def collect(self) -> None:
        self._ended.wait(PATIENCE_S)
        raise RuntimeError("the job was cancelled")

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        if len(self.cancelled) == 3:
            self._ended.set()


def test_a_job_that_spark_begins_after_it_was_cancelled_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clusters, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(clusters, "check_slots", lambda *arguments: None)
    monkeypatch.setattr(clusters, "_GRACE_S", 0.01)
    session, events = SlowSession(), queue.SimpleQueue[Any]()
    cluster = clusters.SparkCluster(session, job(), SystemClock())  # type: ignore[arg-type]
    cluster.start_attempt(Generation(1), 1, events.put)
    cluster.stop_attempt(Generation(1), "its slots did not start in time")
    ended = events.get(timeout=PATIENCE_S)
    assert isinstance(ended, AttemptEnded) and "cancelled" in str(ended.error)
    assert len(set(session.cancelled)) == 1 and len(session.cancelled) == 3
    cluster.close()


class GoneSession:
    """A Spark session that was stopped: whatever is asked of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the context is gone")


def test_the_end_of_an_attempt_is_told_when_the_session_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(clusters, "_GRACE_S", 0.0)
    cluster = clusters.SparkCluster(GoneSession(), job(), SystemClock())  # type: ignore[arg-type]
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    cluster.start_attempt(Generation(1), 1, events.put)
    ended = events.get(timeout=PATIENCE_S)
    assert isinstance(ended, AttemptEnded) and "the context is gone" in str(ended.error)
    cluster.stop_attempt(Generation(1), "over")
    cluster.close()
