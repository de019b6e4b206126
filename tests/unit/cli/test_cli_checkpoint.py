"""``penstock checkpoint``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import Log, LogSource, Producer, Text
from penstock.coordinator.job_directory import job_directory
from penstock.core.clock import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The directory of a job that was cancelled and keeps its checkpoints."""
    place = tmp_path_factory.mktemp("checkpoints")
    topic = Log(place / "log").create_topic("t")
    with Producer(topic) as producer:
        producer.send_many([b"a", b"b", b"a"])
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(place / "chk"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.data-inline-threshold": "0 b",
    }
    with local_cluster(slots=1) as launcher:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        source = LogSource(place / "log", "t", Text())
        words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
        words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).uid("counter").print()
        client = env.execute_async("counting words")
        (job,) = launcher.jobs
        clock = SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        while job.facts()["checkpoints"] < 4:
            assert clock.monotonic() < deadline
        client.cancel().result()
    return place / "chk"


def invoke(*args):
    return CliRunner().invoke(cli, ["checkpoint", *args])


def test_jobs_and_epochs_are_listed(checkpoints):
    result = invoke("list", str(checkpoints), "--json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.output)
    assert len(rows) == 2 and rows[0]["epoch"] > rows[1]["epoch"]
    assert {row["job"] for row in rows} == {"counting words"}
    assert all(row["bytes"] > 0 and row["problem"] is None for row in rows)
    age = SystemClock().now_ms() - rows[0]["created_ms"]
    assert 0 <= age < 24 * 3_600_000
    assert "counting words" in invoke("list", str(checkpoints)).output
    inside = invoke("list", str(checkpoints / job_directory("counting words")), "--json")
    assert json.loads(inside.output) == rows


def test_a_directory_without_checkpoints(tmp_path):
    assert "no checkpoints" in invoke("list", str(tmp_path)).output
    result = invoke("list", str(tmp_path / "nowhere"))
    assert result.exit_code == 1 and "nowhere" in result.stderr


def test_one_snapshot_is_described_and_verified(checkpoints):
    (newest, _) = json.loads(invoke("list", str(checkpoints), "--json").output)
    for path in (newest["location"], str(checkpoints / job_directory("counting words"))):
        result = invoke("show", path)
        assert result.exit_code == 0, result.stderr
        assert "counting words" in result.output and "counter" in result.output
        assert "checksums right" in result.output


def test_a_damaged_snapshot_is_found_out(checkpoints, tmp_path):
    checkpoints = shutil.copytree(checkpoints, tmp_path / "chk")
    (newest, _) = json.loads(invoke("list", str(checkpoints), "--json").output)
    manifest = Path(newest["location"].removeprefix("file://"))
    files = [path for path in manifest.parent.rglob("*") if path.is_file() and path.name != "_metadata"]
    files = [path for path in files if "journal" not in path.parts]
    assert files
    for path in files:
        path.write_bytes(b"\0" * path.stat().st_size)
    result = invoke("show", newest["location"])
    assert result.exit_code == 1 and "cannot be restored" in result.stderr


def test_show_of_nothing(tmp_path):
    result = invoke("show", str(tmp_path))
    assert result.exit_code == 1 and "no snapshot" in result.stderr
