"""The thread that waits for a gang's Spark job tells its end, whatever Spark does."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.events import AttemptEnded
from penstock.core.clock import SystemClock
from penstock.core.ids import Generation
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark import cluster as clusters


def job() -> Assembled:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    return assemble(env._spec("job"), default_parallelism=1)


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
    ended = events.get(timeout=30)
    assert isinstance(ended, AttemptEnded) and "the context is gone" in str(ended.error)
    cluster.stop_attempt(Generation(1), "over")
    cluster.close()
