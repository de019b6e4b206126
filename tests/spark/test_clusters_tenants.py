"""Several jobs and Spark's own work in one session; slots that take more than a core."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run
from flow_graphs import GRAPHS, SINKS
from progress import COUNT

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def test_jobs_and_spark_work_share_a_session(tmp_path: Path) -> None:
    """Two of three slots are one job's: the third is the other's, and a fourth is refused."""
    driver = run(tmp_path, "tenants.py", tmp_path)
    assert driver.wait_for("in pool ") == "in pool 2, elsewhere 0"
    assert driver.wait_for("beside ") == f"beside {sum(range(1000))}"
    assert driver.wait_for("slots ") == "slots 3", "six cores, two for each"
    assert driver.wait_for("chips ") in [f"chips [['{chip}']]" for chip in "abc"]
    assert "needs 4 slots" in driver.wait_for("refused: ") and "has 3" in driver.wait_for("refused: ")
    for job in ("gated", "plain"):
        assert SINKS["log"][1](tmp_path / job / "keyed") == GRAPHS["keyed"][1](COUNT), job
