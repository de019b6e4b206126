"""What Spark's own UI says of a job, what workers log, and a look at a stream, on real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_spark_names_the_job_and_workers_log_their_place(tmp_path: Path) -> None:
    driver = run(tmp_path, "told.py")
    assert driver.wait_for("taken: ") == "taken: [0, 1, 2, 3, 4]"
    page = driver.wait_for("page: ").removeprefix("page: ")
    stream = driver.wait_for("stream: ")
    assert page.startswith("http://127.0.0.1:") and stream.endswith(f"; page: {page}")
    assert "told &lt;a href='/jobs/'&gt;x&lt;/a&gt; &amp; s3://me:***@bucket, attempt 0: " in stream
    assert "Source: endless" in stream and "Sink: Print" in stream
    batch = driver.wait_for("batch: ")
    assert "in batch, batch: " in batch and "Source: Collection Source" in batch and "page: http://" in batch
    html = driver.wait_for("html: ")
    assert page in html and "&lt;a href" in html
    logged = [json.loads(line) for line in driver.lines if line.startswith('{"timestamp"')]
    places = [
        (line["job"], line["attempt"], line["vertex"], line["subtask"])
        for line in logged
        if line["logger"] == "functions"
    ]
    names = [job for job, *_ in places]
    assert set(names) == {"take", "told <a href='/jobs/'>x</a> & s3://me:***@bucket", "in batch"}
    assert all(attempt == 0 and "Map" in vertex and subtask == 0 for _, attempt, vertex, subtask in places)
    assert "hunter2" not in driver.text
