"""However a job on Spark ends, its driver and the workers hold nothing of it afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_jobs_on_spark_give_everything_back(tmp_path: Path) -> None:
    driver = run(tmp_path, "giving_back.py", "local[2]", tmp_path)
    for end in ("finished", "restarted", "failed", "cancelled", "stuck"):
        assert f"back {end}" in driver.lines
