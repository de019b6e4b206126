"""The thread that waits for a worker group's Spark job tells its end, whatever Spark does."""

from __future__ import annotations

import queue
import socket
import threading
from typing import Any

import pytest

from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.events import AttemptEnded
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import ClusterError
from penstock.core.ids import Generation
from penstock.datastream import StreamExecutionEnvironment
from penstock.exchange.lines import PLAIN, Transport
from penstock.spark import cluster as clusters
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(clusters, "transport_of", lambda *arguments: PLAIN)


def job(settings: dict[str, str] | None = None) -> Assembled:
    config = Configuration.from_dict(settings or {})
    env = StreamExecutionEnvironment.get_execution_environment(config)
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

    def statusTracker(self) -> Any:
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [1]

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
    monkeypatch.setattr(clusters, "_GRACE_S", 0.0)
    cluster = clusters.SparkCluster(GoneSession(), job(), SystemClock())  # type: ignore[arg-type]
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    cluster.start_attempt(Generation(1), 1, events.put)
    ended = events.get(timeout=PATIENCE_S)
    assert isinstance(ended, AttemptEnded) and "the context is gone" in str(ended.error)
    cluster.stop_attempt(Generation(1), "over")
    cluster.close()


class NoSlots(SlowSession):
    """A cluster whose executors are gone: the job waits for others."""

    master = "spark://head:7077"

    def resourceProfileManager(self) -> Any:
        return self

    defaultResourceProfile = resourceProfileManager

    def maxNumConcurrentTasks(self, profile: Any) -> int:
        return 1


def test_an_attempt_that_waits_for_executors_can_be_stopped() -> None:
    """However long it would wait: a cancelled job holds no slots, and its driver does not hang."""
    settings = {"penstock.slots.timeout": "1000 h"}
    session, events = NoSlots(), queue.SimpleQueue[Any]()
    cluster = clusters.SparkCluster(session, job(settings), SystemClock())  # type: ignore[arg-type]
    cluster.start_attempt(Generation(1), 2, events.put)
    with pytest.raises(queue.Empty):
        events.get(timeout=0.3)
    cluster.stop_attempt(Generation(1), "the job was cancelled")
    ended = events.get(timeout=PATIENCE_S)
    assert isinstance(ended, AttemptEnded) and "given up" in str(ended.error)
    cluster.close()


class Unbegun(SlowSession):
    """Spark has taken the job, and tries every few seconds whether there is room for it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return self.begun

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        if self.begun:
            self._ended.set()


def test_an_attempt_that_spark_has_not_begun_is_over_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is cancelled if Spark begins it later: nothing of it stays."""
    monkeypatch.setattr(clusters, "check_slots", lambda *arguments: None)
    monkeypatch.setattr(clusters, "_GRACE_S", 0.01)
    session, events = Unbegun(), queue.SimpleQueue[Any]()
    cluster = clusters.SparkCluster(session, job(), SystemClock())  # type: ignore[arg-type]
    cluster.start_attempt(Generation(1), 1, events.put)
    attempt = cluster._attempt
    cluster.stop_attempt(Generation(1), "the job was cancelled")
    ended = events.get(timeout=PATIENCE_S)
    assert isinstance(ended, AttemptEnded) and "not begun" in str(ended.error)
    assert not attempt.over.is_set()
    session.begun.append(1)
    assert attempt.over.wait(PATIENCE_S), "it was begun, and nobody cancelled it"
    assert events.empty(), "the end is told once"
    cluster.close()


def test_a_taken_range_of_ports_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything of the job runs."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = f"{one.getsockname()[1]},{other.getsockname()[1]}"
        monkeypatch.setattr(clusters, "transport_of", lambda *arguments: Transport(control_ports=ports))
        with pytest.raises(ClusterError) as raised:
            clusters.SparkCluster(SlowSession(), job(), SystemClock())  # type: ignore[arg-type]
    told = str(raised.value)
    assert f"jobmanager.rpc.bind-port allows ports {ports}, and on 127.0.0.1 all 2 are taken" in told
    assert "allow more" in told and "leave the setting out" in told and "\n" not in told
