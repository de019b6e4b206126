"""Rescales that meet everything else: each is refused clearly, or works exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import read_log
from local_jobs import NO_TIME, environment, kill_slot, until

from penstock.connectors.log import Log, LogSink, LogSource, Producer, Text
from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S


class Count(KeyedProcessFunction):
    """Says of each word how often it has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield f"{value} {seen}"


class Fed:
    """A job that counts words of a topic of two partitions, and what it was given."""

    def __init__(self, launcher: LocalLauncher, root: Path, **settings: str) -> None:
        self._log = Log(root / "log")
        self._log.create_topic("in", partitions=2)
        self._log.create_topic("out", partitions=2)
        self._root = root
        self._words: list[str] = []
        env = environment(root / "chk", **settings).set_parallelism(2)
        words = env.from_source(LogSource(root / "log", "in", Text()), NO_TIME, "in").uid("in")
        # In one task with the source while the job has two subtasks, and apart from it else.
        lower = words.map(lambda word: word.lower()).uid("lower").set_parallelism(2)
        counted = lower.key_by(lambda word: word).process(Count()).uid("count").map(str).uid("same")
        counted.sink_to(LogSink(root / "log", "out", Text())).uid("out")
        self.client = env.execute_async("fed")
        self.job: Any = launcher.jobs[-1]
        self.runs()

    def runs(self) -> None:
        until(lambda: self.job.status() is JobStatus.RUNNING, "the job runs")

    def feed(self) -> None:
        more = [f"Word{number % 7}" for number in range(70)]
        with Producer(self._log.topic("in")) as producer:
            for number, word in enumerate(more):
                producer.send(word.encode(), partition=number % 2)
            producer.sync()
        self._words += more

    @property
    def golden(self) -> list[str]:
        totals = Counter(word.lower() for word in self._words)
        return sorted(f"{word} {n}" for word, total in totals.items() for n in range(1, total + 1))

    def is_exact(self) -> bool:
        return bool(read_log(self._root / "log") == self.golden)


@contextmanager
def fed(root: Path, **settings: str) -> Iterator[tuple[Fed, LocalLauncher]]:
    """At the end its output must be what it was given, once."""
    with local_cluster() as launcher:
        job = Fed(launcher, root, **settings)
        job.feed()
        yield job, launcher
        job.feed()
        until(job.is_exact, "all words are counted once")
        job.client.stop_with_savepoint(False, str(root / "sp")).result(PATIENCE_S)
        job.job.result().result(PATIENCE_S)
        assert job.is_exact()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (0, "is a whole number from 1"),
        (-1, "is a whole number from 1"),
        (2, "has parallelism 2 already"),
        (129, "cannot have parallelism 129: the maximum of step"),
        (10**9, "cannot have parallelism 1000000000: the maximum of step"),
        (128, "cannot have 128 slots: Spark has room for 6"),
        (7, "cannot have 7 slots: Spark has room for 6. Rescale it to 6 at most"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(wanted: int, why: str, tmp_path: Path) -> None:
    with fed(tmp_path) as (it, launcher):
        launcher.clusters[-1].most_slots = lambda: 6  # type: ignore[method-assign]
        with pytest.raises(PenstockError) as refused:
            it.job.rescale(wanted)[1].result(PATIENCE_S)
        assert why in str(refused.value)
        assert (it.job.driver.parallelism, it.job.driver.restarts) == (2, 0)


def outcome(*asked: Future[str]) -> list[str]:
    """What became of each."""
    wait(asked, PATIENCE_S)
    return ["" if one.exception() is None else str(one.exception()) for one in asked]


def test_more_readers_than_splits_and_chains_that_change(tmp_path: Path) -> None:
    with fed(tmp_path) as (it, _):
        chains = []
        for parallelism in (5, 1, 2, 3):
            assert outcome(it.job.rescale(parallelism)[1]) == [""]
            chains.append(len(it.job.driver._plan.vertices))
            it.feed()
        assert chains == [3, 3, 2, 3]


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_several_at_once_beside_checkpoints_and_savepoints(unaligned: str, tmp_path: Path) -> None:
    settings = {"execution__checkpointing__unaligned__enabled": unaligned}
    with fed(tmp_path, **settings) as (it, _):
        for parallelisms in ((4, 5), (1, 3)):
            before = it.job.driver.parallelism
            saved = it.client.trigger_savepoint(str(tmp_path / "sp"))
            told = outcome(*(it.job.rescale(wanted)[1] for wanted in parallelisms))
            refused = [why for why in told if why]
            assert len(refused) == 1 and "rescaled already" in refused[0], told
            assert it.job.driver.parallelism == parallelisms[told.index("")] != before
            assert "savepoint-" in str(saved.result())
            it.feed()
        assert it.job.driver.restarts == 0


def test_while_slots_vanish(tmp_path: Path) -> None:
    """Whatever rung of the ladder it is at: it is done, or the job is where it was."""
    with fed(tmp_path) as (it, launcher):
        for parallelism in (3, 2, 4):
            before = it.job.driver.parallelism
            asked = it.job.rescale(parallelism)[1]
            launcher.clusters[-1].kill(0)
            (why,) = outcome(asked)
            it.runs()
            assert it.job.driver.parallelism == (before if why else parallelism), why
            it.feed()


def test_while_the_job_restarts(tmp_path: Path) -> None:
    """It waits until the job runs again, and is done then."""
    slow = {"restart_strategy__fixed_delay__delay": "200 ms"}
    with fed(tmp_path, **slow) as (it, launcher):
        kill_slot(launcher)
        assert outcome(it.job.rescale(3)[1]) == [""] and it.job.driver.parallelism == 3
