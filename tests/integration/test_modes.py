"""The three guarantees after crashes: exactly once, at least once, and none at all (at most once)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import GRAPHS, TOPIC, Pace, log_sink, read_log
from local_jobs import Stoppable, environment, finish, output, start_graph, until, wait_for_snapshots

from penstock.common import WatermarkStrategy
from penstock.connectors.log import Log, LogOffsets, LogSink, LogSource, Producer, Text
from penstock.connectors.source import Split
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.demo.modes import Mode
from penstock.demo.verdict import Verdict
from penstock.testing.local import LocalLauncher, local_cluster

COUNT, RATE = 900, 2500.0
FIRST, UNSEEN, LAST = 100, 20, 50


def crash(launcher: LocalLauncher, slot: int) -> None:
    """A slot vanishes; the job notices."""
    job = launcher.jobs[-1]
    until(lambda: job.status().name == "RUNNING", "the job runs")
    restarts = job.driver.restarts
    launcher.clusters[-1].kill(slot)
    until(lambda: job.driver.restarts > restarts, "the job restarts")


def run_at_least_once(graph: str, work: Path) -> Counter[str]:
    """The output of a graph whose barriers are only counted, after three crashes in the middle."""
    with local_cluster() as launcher:
        pace = Pace(RATE, work / "gate")
        mode = {"execution__checkpointing__mode": "AT_LEAST_ONCE"}
        client = start_graph(graph, work / "out", work / "chk", 2, COUNT, pace, **mode)
        for slot in (0, 1, 0):
            wait_for_snapshots(launcher, 2)
            crash(launcher, slot)
        (work / "gate").touch()
        finish(client)
    return Counter(output(graph, work / "out"))


def test_without_a_repartition_at_least_once_is_exact(tmp_path: Path) -> None:
    """Tasks with one input have nothing to align: counting barriers is as good as waiting for them."""
    assert run_at_least_once("chain", tmp_path) == Counter(GRAPHS["chain"][1](COUNT))


def test_with_a_repartition_at_least_once_loses_nothing(tmp_path: Path) -> None:
    records = Counter(line for line in GRAPHS["keyed"][1](COUNT) if ":" in line)
    assert len(records) == COUNT
    assert not records - run_at_least_once("keyed", tmp_path)


def copy_topic(env: Any, root: Path) -> None:
    """From ``in`` to the output topic, by plain appends, in two subtasks."""
    end = LogOffsets.offsets({0: (FIRST + UNSEEN + LAST) // 2, 1: (FIRST + UNSEEN + LAST) // 2})
    log_sink(root)
    source = LogSource(root, "in", Text(), end=end)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").rebalance()
    stream.sink_to(LogSink(root, TOPIC, Text(), guarantee=DeliveryGuarantee.AT_LEAST_ONCE))


def test_without_checkpoints_a_job_goes_on_at_the_end(tmp_path: Path) -> None:
    """What came while it was down is lost, nothing is repeated, and the end is where it was."""
    topic = Log(tmp_path).create_topic("in", partitions=2)
    numbers = iter(range(FIRST + UNSEEN + LAST))

    def append(count: int) -> None:
        for _ in range(count):
            number = next(numbers)
            producer.send(str(number), partition=number % 2)
        producer.flush()

    clock = Stoppable()
    with Producer(topic) as producer, local_cluster(clock=clock) as launcher:
        append(FIRST)
        env = environment(restart_strategy__fixed_delay__delay="50 ms").set_parallelism(2)
        copy_topic(env, tmp_path)
        client = env.execute_async("copy")
        until(lambda: len(read_log(tmp_path)) == FIRST, "all records are copied")
        with clock.stopped():
            crash(launcher, 1)
            append(UNSEEN)
        until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs again")
        append(LAST)
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 1
    unseen = range(FIRST, FIRST + UNSEEN)
    assert read_log(tmp_path) == sorted(str(n) for n in range(FIRST + UNSEEN + LAST) if n not in unseen)


def test_a_bounded_log_that_has_grown_past_its_end_is_over(tmp_path: Path) -> None:
    """From the current end means no further than the split goes."""
    with Producer(Log(tmp_path).create_topic("in")) as producer:
        for number in range(10):
            producer.send(str(number))
    source = LogSource(tmp_path, "in", Text(), end=LogOffsets.offsets({0: 7}))
    (split,) = source.create_enumerator(1).discover()
    assert source.from_end(split).info.start == 7


def test_a_source_that_knows_no_end_starts_over() -> None:
    split = Split("0/1", (0, 1))
    assert DataGeneratorSource(str, 10).from_end(split) == split


@pytest.mark.parametrize(
    ("mode", "kept"), [(Mode.EXACTLY_ONCE, "-"), (Mode.AT_LEAST_ONCE, "-d"), (Mode.NONE, "-dl")]
)
def test_what_the_demo_takes_for_a_kept_promise(mode: Mode, kept: str) -> None:
    for trouble in "-dl":
        verdict = Verdict(10, int(trouble == "l"), int(trouble == "d"), 0, 0, {}, frozenset())
        assert mode.is_kept(verdict) == (trouble in kept), (mode, trouble)
