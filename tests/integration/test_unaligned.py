"""The five graphs with unaligned checkpoints, from the start and after a time: the same golden outputs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import GRAPHS, Pace
from local_jobs import (
    NO_TIME,
    environment,
    finish,
    output,
    published,
    start_graph,
    until,
    wait_for_snapshots,
)

from penstock.core.errors import ConfigError
from penstock.testing.local import LocalLauncher, local_cluster

COUNT, RATE, NUMBERS = 900, 2500.0, 1200
UNALIGNED = {"execution__checkpointing__unaligned__enabled": "true"}
SWITCHING = {**UNALIGNED, "execution__checkpointing__aligned_checkpoint_timeout": "2 ms"}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("settings", [UNALIGNED, SWITCHING], ids=["unaligned", "switching"])
def test_survives_crashes_of_slots(graph: str, settings: dict[str, str], tmp_path: Path) -> None:
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **settings)
        wait_for_snapshots(launcher, 2)
        for slot in (0, 1):
            until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
            restarts = launcher.jobs[-1].driver.restarts
            launcher.clusters[-1].kill(slot)
            until(lambda seen=restarts: launcher.jobs[-1].driver.restarts > seen, "the job restarts")
        pace.gate.touch()
        finish(client)
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("parallelism", [(2, 2), (2, 1), (2, 3)])
def test_resumes_from_retained_snapshot(graph: str, parallelism: tuple[int, int], tmp_path: Path) -> None:
    before, after = parallelism
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", before, COUNT, pace, **UNALIGNED)
        wait_for_snapshots(launcher, 4)
        client.cancel().result()
        stopped_at = published(launcher)
        finish(start_graph(graph, tmp_path / "out", tmp_path / "chk", after, COUNT, Pace(), **UNALIGNED))
        last = launcher.jobs[-1].coordinator.checkpoints.last_published
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)
    assert last is not None and last > stopped_at


def backpressured(checkpoints: Path, step: str = "slow", **settings: str) -> Any:
    """A source far faster than what is behind it, with deep queues between them."""
    env = environment(checkpoints, **UNALIGNED, **settings)
    env.set_parallelism(2)

    def slow(value: int) -> int:
        time.sleep(0.002)
        return value

    stream = env.from_source(Pace().source(Watched.make, NUMBERS), NO_TIME, "numbers").uid("numbers")
    if step != "gone":
        stream = stream.rebalance().map(slow).uid(step)
    return stream


class Watched:
    """What a function of a job sees of its own snapshots. Found by name, so it is not copied."""

    launcher: LocalLauncher
    made = 0
    late: list[int] = []
    seen: list[int] = []

    @classmethod
    def make(cls, value: int) -> int:
        cls.made += 1
        return value

    @classmethod
    def until_triggered(cls, value: int) -> int:
        """When all records are made, some wait until a snapshot is asked for: barriers find full queues."""
        until(lambda: cls.launcher.jobs, "the job is known")
        cls.seen.append(len(history(cls.launcher)))
        if cls.made == NUMBERS and len(cls.late) < NUMBERS // 6:
            until(lambda: cls.launcher.jobs[-1].coordinator.checkpoints.pending(), "a snapshot is under way")
            cls.late.append(value)
        return value


def history(launcher: LocalLauncher) -> list[dict[str, float]]:
    return launcher.jobs[-1].coordinator.checkpoints.history


def test_records_in_flight_are_persisted_under_backpressure(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        Watched.launcher, Watched.made, Watched.late, Watched.seen = launcher, 0, [], []
        stream = backpressured(tmp_path / "chk").map(Watched.until_triggered)
        found = sorted(stream.execute_and_collect("job"))
        most = max(snapshot["persisted_bytes"] for snapshot in history(launcher))
    assert found == list(range(NUMBERS)) and Watched.late
    assert most > 1000, "records were queued, and the barrier overtook them"
    assert Watched.seen.count(0) < NUMBERS, "one was complete before the queues had been emptied"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"execution__checkpointing__mode": "AT_LEAST_ONCE"}, "EXACTLY_ONCE"),
        ({"execution__checkpointing__max_concurrent_checkpoints": "2"}, "max-concurrent-checkpoints to 1"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, str], text: str, tmp_path: Path) -> None:
    with local_cluster(), pytest.raises(ConfigError, match=text):
        backpressured(tmp_path / "chk", **settings).execute_and_collect("job")
