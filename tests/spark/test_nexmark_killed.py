"""Queries of Nexmark on Spark that lose a Python worker in the middle: what is left equals DuckDB.

All queries, and a million events: ``make bench-nexmark ARGS="--kill --rescale"``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from drivers import run

from benchmarks.nexmark import penstock_job
from benchmarks.nexmark.events import Feed
from benchmarks.nexmark.reporting import RESULT, sized
from benchmarks.nexmark.truth import Truth

pytestmark = [pytest.mark.spark, pytest.mark.kills]

FEED = Feed(events=20_000, per_second=500)
QUERIES = ("q4", "q8", "q16")
"""Rows that are taken back from an updating join, windows that are joined, and sets of values."""


def test_killed_python_workers(tmp_path: Path) -> None:
    sizes = [sized(query, FEED.events or 0) for query in QUERIES]
    disturbed = ("--per-second", FEED.per_second, "--rows", tmp_path, "--disturb", "kill")
    driver = run(tmp_path, penstock_job.__file__, *sizes, *disturbed)
    said = [json.loads(line.removeprefix(RESULT)) for line in driver.lines if line.startswith(RESULT)]
    assert [it["query"] for it in said] == list(QUERIES), driver.text
    assert all(it["restarts"] > 0 for it in said)
    with Truth(FEED) as truth:
        checked = [truth.check(query, pq.read_table(tmp_path / f"{query}.parquet")) for query in QUERIES]
    assert min(checked) > 0
