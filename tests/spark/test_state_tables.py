"""Snapshots as DataFrames, and savepoints out of DataFrames, on a real session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_state_is_read_and_written_by_spark(tmp_path: Path) -> None:
    driver = run(tmp_path, "state_tables.py", "local[2]", tmp_path)
    told = {}
    for line in driver.lines:
        if line.startswith("{"):
            told |= json.loads(line)

    assert told["counts"] == told["job"] and set(told["counts"].values()) == {20}
    assert told["types"] == [["key", "string"], ["value", "bigint"]]
    assert told["partitions"] == 2
    assert told["clicks by hour"] == told["seen"] == told["timers"] == 1000
    assert 'option("trusted", "true")' in told["untrusted"]
    assert ["counting", "count", 50] in told["states"]
    assert told["operators"] == ["clicks", "counting", "totals"]
    assert told["lists"] == 1

    assert told["files"] == [16, list(range(8))]
    assert told["sum"] == sum(range(3000))
    assert told["went on"] == ["new 1", "user 0 1", "user 2999 5999"]
    assert told["kept"] == 3001
    assert "comes twice" in told["twice"]

    assert told["output"] == told["truth"]
    last_hour = max(hour for _, hour, _ in told["output"])
    assert {tuple(row) for row in told["open hours"]} <= {tuple(row) for row in told["output"]}
    assert [row for row in told["open hours"] if row[1] == last_hour] == [
        row for row in told["output"] if row[1] == last_hour
    ]
