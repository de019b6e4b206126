"""BATCH mode on real Spark: the same results, and Spark's own retries."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch_kill import golden
from drivers import run
from flow_graphs import SINKS

pytestmark = pytest.mark.spark


def test_random_pipelines_on_spark(tmp_path: Path) -> None:
    seeds = range(15)
    driver = run(tmp_path, "batch_equal.py", "local[3]", *seeds)
    assert [line for line in driver.lines if line.startswith("seed")] == [f"seed {n}: equal" for n in seeds]


def test_an_executor_is_killed_in_the_middle_of_a_stage(tmp_path: Path) -> None:
    driver = run(tmp_path, "batch_kill.py", "local-cluster[2,1,1024]", tmp_path)
    driver.wait_for("killed ")
    for kind in ("log", "file"):
        assert SINKS[kind][1](tmp_path / kind) == golden(), kind


def test_several_readers_failures_and_cancelling(tmp_path: Path) -> None:
    driver = run(tmp_path, "batch_trouble.py", "local[2]")
    said = [line.partition("> ") for line in driver.lines if "> " in line]
    assert sorted(text for _, _, text in said) == ["even 2450", "max 99", "odd 2500", "twice 200"]
    assert all(1 <= int(subtask) <= 3 for subtask, _, _ in said), "subtasks are numbered vertex by vertex"
    failed = driver.wait_for("failed: ")
    assert "step 'divide' failed" in failed and "record:  3" in failed and "ZeroDivisionError" in failed
    assert "PENSTOCK" not in failed and "mapInArrow" not in failed
    refused = driver.wait_for("refused: ")
    assert "PENSTOCK-FAILED gASV" in refused, "Spark has quoted the cell in the error of the job"
    assert not list(tmp_path.rglob("ran_by_data")), "what a cell holds is not run"
    driver.wait_for("stages 0 of 1, tasks of 3")
    driver.wait_for("cancelled: CANCELED")
