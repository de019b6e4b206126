"""``penstock checkpoint`` and ``penstock doctor``."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import doctor as doctor_module
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


# --- doctor -------------------------------------------------------------------------------------


def test_doctor_finds_this_machine_well(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 0, result.output
    for word in ("Python", "Java", "pyspark", "pyarrow", "pandas", "loopback", str(tmp_path)):
        assert word in result.output


def test_doctor_runs_a_job(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with local_cluster(slots=2):
        result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0 and "a job on two slots" in result.output


def test_doctor_fails_without_java_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 1 and "fail" in result.output and "install a JRE" in result.output


def test_doctor_knows_versions_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(doctor_module.importlib.metadata, "version", lambda name: "3.5.1")
    found = doctor_module.check_package("pyspark")
    assert found.verdict is doctor_module.Verdict.FAIL and "pyspark>=4.1,<4.4" in found.remedy


@pytest.mark.parametrize(
    ("python", "words"),
    [("/nowhere/python", "No such file"), ("false", "it failed"), ("echo", "not 3.")],
)
def test_doctor_finds_workers_that_run_another_python(python, words, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    found = doctor_module.check_workers()
    assert found.verdict is doctor_module.Verdict.FAIL and words in found.what and "Unset" in found.remedy


def test_doctor_finds_workers_that_run_this_python(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor_module.check_workers().verdict is doctor_module.Verdict.OK


def test_doctor_warns_of_what_will_be_short(monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(doctor_module.socket, "gethostname", lambda: "no.such.machine.invalid")
    monkeypatch.setattr(doctor_module.resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    host, files = doctor_module.check_host(), doctor_module.check_descriptors()
    room, workers = doctor_module.check_room(), doctor_module.check_workers()
    assert {found.verdict for found in (host, files, room)} == {doctor_module.Verdict.WARN}
    assert "/etc/hosts" in host.remedy and "ulimit -n 4096" in files.remedy
    assert "SPARK_LOCAL_DIRS" in room.remedy
    assert workers.verdict is doctor_module.Verdict.OK
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(doctor_module, "_ROOM", 1 << 60)
    assert "MB left" in doctor_module.check_room().what


def test_doctor_warns_about_a_home_it_cannot_write(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "file" / "home"))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 0 and "PENSTOCK_HOME" in result.output
