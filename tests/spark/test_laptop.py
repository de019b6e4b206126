"""What a program meets that was written for another engine and is tried on one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_more_slots_than_cores_and_steps_that_nobody_reads(tmp_path: Path, java_options: str) -> None:
    one_core = {"JDK_JAVA_OPTIONS": f"{java_options} -XX:ActiveProcessorCount=1"}
    driver = run(tmp_path, "laptop.py", tmp_path, env=one_core)
    driver.wait_for("cores 1, slots 16")
    numbers = [line for line in driver.lines if re.fullmatch(r"(\d+> )?\d+", line)]
    assert len(numbers) == 2 + 2 * 3, "those of the second job, and of the sinks beside unread steps"
    assert driver.wait_for("first: ") == "first: RUNNING"
    refused = driver.wait_for("refused: ")
    assert "needs 1000 slots" in refused and "penstock.spark.master=local[1000]" in refused
    for step in ("beside STREAMING", "apart STREAMING", "alone BATCH", "beside BATCH", "apart BATCH"):
        assert sorted((tmp_path / step).read_text().split()) == ["1", "2", "3"], step
