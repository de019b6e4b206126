"""What file sinks write, Spark reads: whole, once, and without what is not committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_spark_reads_what_the_file_sinks_committed(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    driver = run(tmp_path, "files_for_spark.py", "local[2]", tmp_path)
    told = {}
    for line in driver.lines:
        if line.startswith("{"):
            told |= json.loads(line)
    assert told == dict.fromkeys(("parquet", "csv", "json", "orc", "delta"), [2000, True])
