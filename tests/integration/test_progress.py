"""``last_progress``, ``recent_progress`` and listeners: true numbers, whatever the job goes through."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, finish, until

from penstock.common import JobClient, JobListener, JobStatus, WatermarkStrategy
from penstock.core.errors import ConfigError, JobFailedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import Record, local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, cued_source
from tests.patience import PATIENCE_S

TIMELESS = WatermarkStrategy.no_watermarks()

SPARKS = {
    "id",
    "runId",
    "name",
    "timestamp",
    "batchId",
    "batchDuration",
    "numInputRows",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "durationMs",
    "eventTime",
    "stateOperators",
    "sources",
    "sink",
}
"""The keys of ``StreamingQueryProgress``, but for ``observedMetrics``."""


class Heard(JobListener):
    """Keeps all it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.over = threading.Event()

    def on_started(self, event: Any) -> None:
        self.events.append(("started", event))

    def on_progress(self, event: Any) -> None:
        self.events.append(("progress", event))

    def on_idle(self, event: Any) -> None:
        self.events.append(("idle", event))

    def on_terminated(self, event: Any) -> None:
        self.events.append(("terminated", event))
        self.over.set()

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


def started(env: StreamExecutionEnvironment, *script: Any, name: str = "numbers") -> JobClient:
    """A job that reads a script and counts by key."""
    timed = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(cued_source(script), timed, "script").set_parallelism(1)
    stream.map(lambda n: n % 3).key_by(lambda n: n).reduce(lambda a, b: a + b).filter(lambda n: False).print()
    return env.execute_async(name)


def test_entries_have_sparks_keys_and_the_engines_numbers(tmp_path: Path) -> None:
    script = [Record(n, 1_000 + n) for n in range(10)]
    with local_cluster():
        client = started(environment(tmp_path), *script, AwaitCheckpoint(), *script[:5])
        assert client.last_progress is None or client.last_progress["name"] == "numbers"
        finish(client)
    entries = client.recent_progress
    assert json.loads(json.dumps(entries)) == entries
    assert all(set(entry) == SPARKS for entry in entries)
    assert sum(entry["numInputRows"] for entry in entries) == 15
    assert {entry["id"] for entry in entries} == {client.get_job_id().hex}
    assert len({entry["runId"] for entry in entries}) == 1
    numbers = [entry["batchId"] for entry in entries if entry["batchId"] > 0]
    assert numbers and numbers == sorted(set(numbers))
    first = next(entry for entry in entries if entry["numInputRows"])
    assert first["numInputRows"] == 10, "the barrier came behind the first ten"
    times = {name: first["eventTime"][name] for name in ("min", "avg", "max")}
    second = "1970-01-01T00:00:01"
    assert times == {"min": f"{second}.000Z", "avg": f"{second}.004Z", "max": f"{second}.009Z"}
    assert first["inputRowsPerSecond"] > 0 and first["processedRowsPerSecond"] > 0
    assert first["durationMs"]["triggerExecution"] >= first["durationMs"]["walCommit"] >= 0
    (source,) = first["sources"]
    assert (source["description"], source["numInputRows"]) == ("Source: script", 10)
    (state,) = first["stateOperators"]
    assert state["memoryUsedBytes"] > 0 and state["numStateStoreInstances"] == 2
    assert first["sink"]["numOutputRows"] == 0, "the filter lets nothing pass"
    first["durationMs"].clear()
    assert client.recent_progress == json.loads(json.dumps(client.recent_progress)) != entries, "a copy"


def test_entries_add_up_although_the_job_crashes(tmp_path: Path) -> None:
    """What was read behind the snapshot that the job goes on from is read again, and counted once."""
    script = [*range(7), AwaitCheckpoint(), *range(4), Crash(), *range(3), AwaitCheckpoint(), 1, Crash(), 2]
    with local_cluster() as launcher:
        client = started(environment(tmp_path), *script)
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 2
    assert sum(entry["numInputRows"] for entry in client.recent_progress) == 7 + 4 + 3 + 2


def test_a_job_without_checkpoints_tells_at_its_end() -> None:
    """The last snapshot is taken all the same, for what sinks have to commit."""
    with local_cluster():
        client = started(environment(), *range(5))
        finish(client)
    (entry,) = client.recent_progress
    assert (entry["batchId"], entry["numInputRows"]) == (1, 5)


def test_a_job_that_stops_with_a_savepoint_tells_the_rest(tmp_path: Path) -> None:
    """The savepoint that a job ends with is as good as a checkpoint; one on the way is not."""
    with local_cluster():
        client = started(environment(), *range(5), AwaitCheckpoint())
        until(lambda: client.handle.view().rows_in, "something is read")
        client.trigger_savepoint(str(tmp_path)).result(PATIENCE_S)
        assert not client.recent_progress
        client.stop_with_savepoint(False, str(tmp_path)).result(PATIENCE_S)
        finish(client)
    assert [(entry["batchId"], entry["numInputRows"]) for entry in client.recent_progress] == [(2, 5)]


def test_namesakes_are_counted_apart() -> None:
    with local_cluster():
        env = environment()
        numbers = env.from_collection(list(range(10))).filter(lambda n: n < 6)
        numbers.filter(lambda n: n < 2).print()
        numbers.filter(lambda n: n >= 2).print()
        client = env.execute_async("two of a name")
        finish(client)
    (entry,) = client.recent_progress
    assert (entry["numInputRows"], entry["sink"]["numOutputRows"]) == (10, 6)
    assert client.handle.view().rows_out == 6


def test_only_the_newest_hundred_are_kept(tmp_path: Path) -> None:
    env = environment(tmp_path, execution__checkpointing__interval="1 ms")
    with local_cluster() as launcher:
        client = started(env, *[AwaitCheckpoint()] * 120)
        finish(client)
    total, entries = launcher.jobs[-1].progress()
    assert total >= 120 and len(entries) == 100
    assert launcher.jobs[-1].progress(total) == (total, [])
    assert launcher.jobs[-1].progress(total - 1) == (total, entries[-1:])


def test_a_listener_hears_everything_in_order(tmp_path: Path) -> None:
    heard = Heard()
    with local_cluster():
        env = environment(tmp_path).add_listener(heard)
        client = started(env, *range(3), AwaitCheckpoint(), AwaitCheckpoint(), AwaitCheckpoint(), *range(2))
        finish(client)
    assert heard.over.wait(PATIENCE_S)
    kinds = heard.kinds()
    assert (kinds[0], kinds[-1]) == ("started", "terminated")
    assert "idle" in kinds, "nothing was read between some checkpoints"
    rows = [event.progress["numInputRows"] for kind, event in heard.events if kind == "progress"]
    assert sum(rows) == 5 and 0 not in rows
    started_, ended = heard.events[0][1], heard.events[-1][1]
    assert (started_.name, started_.id, started_.run_id) == (ended.name, ended.id, ended.run_id)
    assert (ended.status, ended.exception) == (JobStatus.FINISHED, None)


def test_a_listener_hears_what_a_job_failed_with() -> None:
    heard, removed = Heard(), Heard()
    with local_cluster():
        env = environment(restart_strategy__type="none").add_listener(heard).add_listener(removed)
        env.remove_listener(removed)
        with pytest.raises(JobFailedError):
            finish(started(env, 1, Crash()))
    assert heard.over.wait(PATIENCE_S)
    ended = heard.events[-1][1]
    assert ended.status is JobStatus.FAILED and "script" in ended.exception
    assert not removed.events


def test_a_listener_that_raises_or_hangs_does_not_hurt_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = threading.Event()

    class Raises(Heard):
        def on_progress(self, event: Any) -> None:
            super().on_progress(event)
            raise SystemExit("with s3://me:hunter2@bucket")

        on_idle = on_progress

    class Hangs(JobListener):
        def on_started(self, event: Any) -> None:
            held.wait(PATIENCE_S)

    raises, behind = Raises(), Heard()
    with caplog.at_level(logging.WARNING), local_cluster():
        env = environment(tmp_path).add_listener(Hangs()).add_listener(raises).add_listener(behind)
        finish(started(env, 1, AwaitCheckpoint(), 2, AwaitCheckpoint(), 3))
        assert raises.over.wait(PATIENCE_S) and behind.over.wait(PATIENCE_S)
    held.set()
    assert raises.kinds().count("progress") >= 2, "it goes on hearing"
    told = [record.getMessage() for record in caplog.records if "listener" in record.getMessage()]
    assert len(told) == 1 and "Raises" in told[0] and "SystemExit" in told[0]
    assert "hunter2" not in caplog.text


def test_a_slow_listener_misses_the_oldest_and_one_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = threading.Event()

    class Slow(Heard):
        def on_started(self, event: Any) -> None:
            held.wait(PATIENCE_S)

    slow = Slow()
    env = environment(tmp_path, execution__checkpointing__interval="1 ms").add_listener(slow)
    with caplog.at_level(logging.WARNING), local_cluster():
        finish(started(env, *[AwaitCheckpoint()] * 110))
        held.set()
        assert slow.over.wait(PATIENCE_S)
    assert len(slow.events) == 101, "a hundred entries and the end"
    told = [record.getMessage() for record in caplog.records if "too slow" in record.getMessage()]
    assert len(told) == 1 and "missed" in told[0]


def test_what_is_no_listener_is_refused() -> None:
    with pytest.raises(ConfigError, match="JobListener"):
        environment().add_listener(print)  # type: ignore[arg-type]


def test_a_batch_job_starts_and_ends_for_listeners() -> None:
    heard = Heard()
    with local_cluster():
        env = environment(execution__runtime_mode="BATCH").add_listener(heard)
        env.from_collection([1, 2]).filter(lambda n: False).print()
        client = env.execute_async("small")
        finish(client)
        until(heard.over.is_set, "the end is heard")
    assert heard.kinds() == ["started", "terminated"] and client.last_progress is None
