"""A committer slower than the checkpoints, in a whole job: held, told, and nothing lost."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from deciding_sink import DecidingSink
from local_jobs import environment, until

from penstock.cli.jobs import _warnings
from penstock.common import WatermarkStrategy
from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.commits import MOST_WAITING
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


def test_slow_commits_hold_checkpoints_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()
    done: set[Any] = set()  # a committer may be given the same twice

    def decide(committable: Any) -> CommitOutcome:
        assert go.wait(PATIENCE_S)
        done.add(committable)
        return CommitOutcome.COMMITTED

    with local_cluster(1) as launcher, caplog.at_level(logging.INFO, "penstock"):
        env = environment(tmp_path / "chk").set_parallelism(1)
        source = DataGeneratorSource(lambda i: i, 10**9, 2000.0)
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(DecidingSink(decide))
        env.execute_async()
        job = launcher.jobs[-1]
        held = until(lambda: job.facts()["held"], "checkpoints are held")
        assert _warnings({**job.facts(), "outputs_dropped": 0}) == [held]
        savepoint = job.trigger_savepoint(str(tmp_path / "savepoints"))
        assert len(job.coordinator.commits.unconfirmed()) <= MOST_WAITING
        assert not savepoint.done(), "it waits for the commits as well"
        go.set()
        assert Path(savepoint.result(PATIENCE_S).removeprefix("file://")).exists()
        job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
    found = sorted(row for _, rows in done for row in rows)
    assert found and found == list(range(len(found)))
    assert "checkpoints are held" in caplog.text and "checkpoints go on" in caplog.text
