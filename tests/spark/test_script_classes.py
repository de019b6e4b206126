"""Keys and values of classes that the program's own script defines: the next run goes on with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import script_keys
from drivers import Driver, run
from flow_graphs import read_text

pytestmark = [pytest.mark.spark, pytest.mark.kills]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_driver_on_spark_that_is_killed_and_started_again(tmp_path: Path, backend: str) -> None:
    with Driver(tmp_path, "script_keys.py", "local[2]", tmp_path, backend, "wait") as driver:
        driver.wait_for("ready")
        driver.kill_all()
    run(tmp_path, "script_keys.py", "local[2]", tmp_path, backend).wait_for("done")
    assert read_text(tmp_path / "out") == script_keys.expected()
