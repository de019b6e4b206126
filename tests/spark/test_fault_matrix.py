"""The fault matrix: kill -9 at five points of a checkpoint's way, for every exact sink.

Each sink has a job that loses its worker at all five points, one after the other, at successive epochs, and
one that loses its driver five times and is started again each time.  What readers of the sink see at the end
is that of a quiet run.  The jobs of all sinks run at the same time in one driver: the first test that needs
it does that, the others look at what came out.  With ``PENSTOCK_MATRIX_OUT`` set, each line of the matrix is
left there as JSON (``make matrix``).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from drivers import Driver
from fault_matrix_kills import Kills, Point
from fault_matrix_sinks import SINKS, describe_server

pytestmark = [pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(2400)]

PROGRAM = "fault_matrix_job.py"


@dataclass(frozen=True)
class Run:
    """What became of the jobs of all sinks."""

    work: Path
    said: str
    missing: dict[str, str]
    """Sinks that cannot be tested here, and why."""

    def kills(self, sink: str, victim: str) -> Kills:
        peers = [place / "kills" for place in self.work.iterdir() if (place / "kills").is_dir()]
        return Kills(self.work / sink / "kills", victim, tuple(peers) if victim == "driver" else ())


@pytest.fixture(scope="module")
def run_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Runs the jobs of all sinks that were selected, once per victim."""
    chosen = {item.callspec.params["sink"] for item in request.session.items if item.module is request.module}
    done: dict[str, Run] = {}

    def run(victim: str) -> Run:
        if victim not in done:
            work = tmp_path_factory.mktemp(victim)
            missing = describe_servers(work, sorted(chosen), request)
            names = sorted(chosen - set(missing))
            said = {"worker": lose_workers, "driver": lose_drivers}[victim](work, names) if names else ""
            done[victim] = Run(work, said, missing)
        return done[victim]

    return run


def describe_servers(work: Path, sinks: list[str], request: pytest.FixtureRequest) -> dict[str, str]:
    """A directory per sink that can be tested; why not for the others."""
    missing = {}
    for sink in sinks:
        name = SINKS[sink].server
        try:
            server = None if name is None else request.getfixturevalue(name)
        except pytest.skip.Exception as reason:
            missing[sink] = str(reason)
            continue
        (work / sink).mkdir()
        describe_server(work / sink, server)
    return missing


def lose_workers(work: Path, sinks: list[str]) -> str:
    """The jobs recover by themselves; what the program printed."""
    with Driver(work, PROGRAM, work, "worker", *sinks) as driver:
        driver.finish()
    return driver.text


def lose_drivers(work: Path, sinks: list[str]) -> str:
    """The same command again after each kill; what the program printed in its last run."""
    for _ in Point:
        with Driver(work, PROGRAM, work, "driver", *sinks) as driver:
            code = driver.finish()
        if code != -signal.SIGKILL:
            return f"the program was not killed, it ended with {code}:\n{driver.text}"
    with Driver(work, PROGRAM, work, "driver", *sinks) as driver:
        driver.finish()
    return driver.text


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("victim", ["worker", "driver"])
def test_exact_after_kills(victim: str, sink: str, run_of: Callable[[str], Run]) -> None:
    """Every kill happened at its point, each after another epoch, and the content is exact."""
    run = run_of(victim)
    if sink in run.missing:
        pytest.skip(run.missing[sink])
    kills = run.kills(sink, victim)
    done = kills.done()
    assert [mark["point"] for mark in done] == [point.name for point in Point], run.said
    epochs = [mark["epoch"] for mark in done]
    assert epochs == sorted(set(epochs)), f"the kills came after epochs {epochs}"
    assert f"done {sink} restarts=" in run.said, run.said
    rows = SINKS[sink].check_exact(run.work / sink, f"{victim} killed after epochs {epochs}")
    report(sink, victim, rows, kills)


def report(sink: str, victim: str, rows: int, kills: Kills) -> None:
    """For the table in the documentation."""
    target = os.environ.get("PENSTOCK_MATRIX_OUT")
    if target is None:
        return
    cells = [
        {"point": mark["point"], "epoch": mark["epoch"], "recovery_s": recovery}
        for mark, recovery in zip(kills.done(), kills.recoveries(), strict=True)
    ]
    Path(target).mkdir(parents=True, exist_ok=True)
    file = Path(target) / f"{list(SINKS).index(sink):02}-{sink}-{victim}.json"
    result = {"sink": SINKS[sink].title, "victim": victim, "rows": rows, "cells": cells}
    file.write_text(json.dumps(result, indent=1))
