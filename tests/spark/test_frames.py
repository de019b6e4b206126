"""Spark DataFrames as the ends of jobs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from drivers import Driver, run

pytestmark = pytest.mark.spark


def test_frames_at_both_ends(tmp_path: Path) -> None:
    assert run(tmp_path, "frames.py", tmp_path).wait_for("done")


def test_a_driver_killed_between_the_function_and_its_confirmation(tmp_path: Path) -> None:
    """Same epoch, same rows; and the rows are those of the frame that the job began with."""
    with Driver(tmp_path, "epochs.py", "local[3]", tmp_path) as driver:
        assert driver.finish() == -9, driver.text
    run(tmp_path, "epochs.py", "local[3]", tmp_path).wait_for("done")
    calls = defaultdict(list)
    for line in (tmp_path / "calls").read_text().splitlines():
        epoch, _, ids = line.partition(" ")
        calls[int(epoch)].append(ids)
    assert any(len(rows) > 1 for rows in calls.values()), "the call that nobody knew of came again"
    assert all(len(set(rows)) == 1 for rows in calls.values())
    ids = [i for file in tmp_path.glob("epoch-*") for i in json.loads(file.read_text())]
    assert sorted(ids) == list(range(1600))
    assert not list((tmp_path / "chk" / "_epochs").rglob("*.parquet"))
    kept = list((tmp_path / "chk" / "_frames").rglob("*.parquet"))
    assert kept, "the second driver took them over, and cannot know whether the first made a savepoint"
