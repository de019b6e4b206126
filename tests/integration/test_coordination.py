"""Races and failures on the driver's side that a job must get through."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deciding_sink import BufferingWriter, DecidingSink
from flow_graphs import read_text, text_file_sink
from local_jobs import environment, finish, published, until, wait_for_snapshots

from penstock.common import WatermarkStrategy
from penstock.connectors.sink import CommitOutcome, Sink, SinkWriter, WriterContext
from penstock.connectors.source import EndOfSplit, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConnectorError, JobFailedError
from penstock.datastream import MapFunction, RuntimeContext
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

NO_TIME = WatermarkStrategy.no_watermarks()


# --- discovery -------------------------------------------------------------------------------------

STARTED = threading.Event()
GO = threading.Event()


class _Growing(SplitEnumerator):
    """Finds one split at first; the second look takes long and finds the other."""

    def __init__(self) -> None:
        self._seen = 0

    def discover(self) -> Iterable[Split]:
        self._seen += 1
        if self._seen == 2 and not GO.is_set():
            STARTED.set()
            GO.wait(PATIENCE_S)
        return [Split(f"split {self._seen}", self._seen)] if self._seen <= 2 else []

    def snapshot(self) -> Any:
        return self._seen

    def restore(self, state: Any) -> None:
        self._seen = state


class _Hundred(SplitReader):
    def __init__(self, number: int, position: int) -> None:
        self._number, self._next = number, position

    def poll(self, max_rows: int) -> Batch | None:
        if self._next >= 100:
            if self._number == 2:
                raise EndOfSplit
            return None
        self._next += 1
        return Batch(rows=[f"{self._number} {self._next - 1}"])

    def position(self) -> Any:
        return self._next


class GrowingSource(Source):
    bounded = False
    discovery_interval_ms = 10

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _Growing()

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _Hundred(split.info, position or 0)


def test_splits_found_for_a_lost_attempt_are_not_dealt_twice(tmp_path: Path) -> None:
    """The answer to a question of the old attempt comes when the new one is being prepared."""
    STARTED.clear()
    GO.clear()
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk").set_parallelism(2)
        env.from_source(GrowingSource(), NO_TIME, "growing").sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        job = launcher.jobs[-1]
        until(STARTED.is_set, "the second look begins")
        wait_for_snapshots(launcher, 2)
        launcher.clusters[-1].kill(0)
        until(lambda: job.coordinator.phase.name == "PREPARING", "the new attempt asks for splits")
        GO.set()
        until(lambda: "2 99" in read_text(tmp_path / "out"), "the second split is read")
        wait_for_snapshots(launcher, 2)
        client.cancel().result()
    assert read_text(tmp_path / "out") == sorted(f"{n} {i}" for n in (1, 2) for i in range(100))


# --- commits ---------------------------------------------------------------------------------------


def _numbers(env: Any, count: int, rate: float | None = None) -> Any:
    return env.from_source(DataGeneratorSource(lambda i: i, count, rate), NO_TIME, "numbers")


def test_commits_that_ask_to_be_retried(tmp_path: Path) -> None:
    """Everything is committed in the end, each committable once, oldest first."""
    done: list[Any] = []
    asked: dict[Any, int] = {}

    def decide(committable: Any) -> CommitOutcome:
        asked[committable] = asked.get(committable, 0) + 1
        if len(asked) % 3 == 1 and asked[committable] < 3:
            return CommitOutcome.RETRY
        done.append(committable)
        return CommitOutcome.COMMITTED

    with local_cluster():
        env = environment(tmp_path / "chk").set_parallelism(1)
        _numbers(env, 300, 1000.0).sink_to(DecidingSink(decide))
        finish(env.execute_async())
    assert sorted(row for _, rows in done for row in rows) == list(range(300))
    assert len(done) == len(set(done))


def test_commits_that_never_succeed_fail_the_job(tmp_path: Path) -> None:
    with local_cluster():
        env = environment(tmp_path / "chk", restart_strategy__type="none", sink__committer__retries="1")
        _numbers(env.set_parallelism(1), 50).sink_to(DecidingSink(lambda _: CommitOutcome.RETRY))
        with pytest.raises(JobFailedError, match="could not be committed in 1 tries") as caught:
            finish(env.execute_async())
    assert isinstance(caught.value.cause, ConnectorError)


def test_cancelled_job_changes_nothing_after_its_end(tmp_path: Path) -> None:
    """A commit that is under way when the job is cancelled is over before the job is."""
    log: list[str] = []
    begun = threading.Event()

    def decide(committable: Any) -> CommitOutcome:
        begun.set()
        time.sleep(0.2)
        log.append("committed")
        return CommitOutcome.COMMITTED

    with local_cluster():
        env = environment(tmp_path / "chk").set_parallelism(1)
        _numbers(env, 100_000, 1000.0).sink_to(DecidingSink(decide))
        client = env.execute_async()
        until(begun.is_set, "a commit begins")
        client.cancel().result(PATIENCE_S)
        log.append("ended")
        time.sleep(0.3)
    assert log[-1] == "ended"


class BadMessenger(Sink):
    """The driver's part raises something unexpected."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        writer = BufferingWriter()
        context.to_driver("hello")
        return writer

    def on_driver_message(self, message: Any) -> None:
        raise RuntimeError("the driver's end of the sink is broken")


def test_failure_on_the_driver_ends_the_job_instead_of_hanging() -> None:
    with local_cluster():
        env = environment(restart_strategy__type="none").set_parallelism(1)
        _numbers(env, 100).sink_to(BadMessenger())
        with pytest.raises(JobFailedError, match="driver's end of the sink is broken"):
            finish(env.execute_async())


# --- failures while deploying ----------------------------------------------------------------------


class SlowToOpen(MapFunction):
    """The second subtask opens late, so the first is at work long before."""

    def __init__(self, marks: Path) -> None:
        self._marks = marks

    def open(self, runtime_context: RuntimeContext) -> None:
        if runtime_context.get_index_of_this_subtask() == 1:
            time.sleep(0.1)

    def map(self, value: int) -> str:
        if value == 0 and not self._marks.exists():
            self._marks.touch()
            raise RuntimeError("first record")
        return str(value)


def test_record_that_fails_early_is_a_failure_like_any_other(tmp_path: Path) -> None:
    """It restarts the job as the strategy says, however soon it comes."""
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk").set_parallelism(2)
        _numbers(env, 100).map(SlowToOpen(tmp_path / "mark")).sink_to(text_file_sink(tmp_path / "out"))
        finish(env.execute_async())
        assert launcher.jobs[-1].driver.restarts == 1
    assert read_text(tmp_path / "out") == sorted(map(str, range(100)))


class Chatty(Sink):
    """Sends a message to the driver for every record, which takes its time over each."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Talker(context)

    def on_driver_message(self, message: Any) -> None:
        time.sleep(0.002)


class _Talker(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._to_driver = context.to_driver

    def write(self, batch: Batch) -> None:
        for row in batch.to_rows():
            self._to_driver(row)


def test_snapshots_go_on_while_messages_flood_the_driver(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", penstock__batch__max_rows="64").set_parallelism(1)
        _numbers(env, 1_000_000, 20_000.0).sink_to(Chatty())
        client = env.execute_async()
        wait_for_snapshots(launcher, 3)
        assert published(launcher) >= 3, "while there is more to read"
        client.cancel().result(PATIENCE_S)
