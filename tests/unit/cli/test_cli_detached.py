"""``penstock run -d``: the job stays, its log is named, and what fails at once is told."""

from __future__ import annotations

import re
import stat
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import detached
from penstock.cli.main import cli
from penstock.cli.run import run
from penstock.coordinator import registry

ENDLESS = """
import sys
from penstock.common import WatermarkStrategy
from penstock.connectors.log import Log, LogSource, Text
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import local_cluster

Log("log").create_topic("t")
with local_cluster(slots=1) as launcher:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(LogSource("log", "t", Text()), WatermarkStrategy.no_watermarks(), "t").print()
    client = env.execute_async()
    publish_to_registry(launcher.jobs[0])
    print("arguments", sys.argv[1:])
    client.get_job_execution_result().result()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_job_is_left_running_and_found_again(place):
    Path("endless.py").write_text(ENDLESS)
    result = CliRunner().invoke(cli, ["run", "-d", "--name", "left", "endless.py", "--rate", "5"])
    assert result.exit_code == 0, result.stderr
    (entry,) = registry.entries()
    assert CliRunner().invoke(cli, ["cancel", entry.id]).exit_code == 0
    assert f"Job left ({entry.id}) runs, pid {entry.pid}." in result.output
    log = Path(re.search(r"Its log: (.*)", result.output)[1])
    assert log.parent == place / "home" / "logs" and log.name.startswith("left-")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    while "was cancelled" not in log.read_text():
        threading.Event().wait(0.05)
    assert "arguments ['--rate', '5']" in log.read_text()
    assert registry.entries() == []


@pytest.mark.slow
def test_what_fails_before_it_runs_is_told():
    Path("broken.py").write_text(
        "print('so far so good')\nraise ValueError('no input at http://me:hunter2@host')\n"
    )
    result = CliRunner().invoke(cli, ["run", "-d", "--log", "my.log", "broken.py"])
    assert result.exit_code == 1
    assert "no input at http://me:***@host" in result.stderr and "my.log" in result.stderr
    assert "so far so good" in Path("my.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "there is no program 'nowhere.py'"),
        (["-D", "paralelism.default=1", "x.py"], "did you mean 'parallelism.default'"),
        (["--config", "nowhere.yaml", "x.py"], "nowhere.yaml cannot be read"),
        (["--log", "no/such/directory/x.log", "x.py"], "name another with --log"),
    ],
)
def test_what_is_wrong_is_said_here_and_starts_nothing(arguments, said, monkeypatch):
    Path("x.py").write_text("")
    monkeypatch.setattr(detached.subprocess, "Popen", lambda *_, **__: pytest.fail("it was started"))
    result = CliRunner().invoke(cli, ["run", "-d", *arguments])
    assert result.exit_code == 1 and said in result.stderr, result.output


def test_a_log_without_d_is_a_mistake():
    Path("x.py").write_text("")
    result = CliRunner().invoke(cli, ["run", "--log", "x.log", "x.py"])
    assert result.exit_code == 2 and "--log is for -d" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        ["x.py"],
        [
            "-p",
            "3",
            "--master",
            "local[2]",
            "-s",
            "/tmp/chk-1",
            "--name",
            "-odd name",
            "x.py",
            "a",
            "-p",
            "7",
        ],
        [
            "--claim",
            "--allow-non-restored-state",
            "-D",
            "a.b=c d",
            "-D",
            "e=-f",
            "--config",
            "c.yaml",
            "x.py",
        ],
        ["x.py", "--rate", "5", "--", "-d", "--", "--log"],
    ],
)
def test_the_command_is_given_on_as_it_was(line):
    before = run.make_context("run", ["-d", *line]).params
    after = run.make_context("run", detached._arguments(before)).params
    assert after == before | {"detached": False}
