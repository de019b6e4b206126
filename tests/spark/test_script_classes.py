"""Keys and values of classes that the program's own script defines: the next run goes on with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import script_keys
from drivers import Driver, run
from flow_graphs import read_text


def killed_and_started_again(work: Path, master: str, backend: str) -> None:
    with Driver(work, "script_keys.py", master, work, backend, "wait") as driver:
        driver.wait_for("ready")
        driver.kill_all()
    run(work, "script_keys.py", master, work, backend).wait_for("done")
    assert read_text(work / "out") == script_keys.expected()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_program_that_runs_twice_in_its_own_process(tmp_path: Path, backend: str) -> None:
    killed_and_started_again(tmp_path, "here", backend)


@pytest.mark.spark
@pytest.mark.kills
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_driver_on_spark_that_is_killed_and_started_again(tmp_path: Path, backend: str) -> None:
    killed_and_started_again(tmp_path, "local[2]", backend)
