"""A program that ends while its job runs: the job ends as behind Ctrl-C, whatever way the program ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.core.interrupts import TERMINATED
from penstock.core.job import JobStatus
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys, time
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
settings = {{"execution.checkpointing.interval": "15 ms", "execution.checkpointing.dir": {place!r}}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
source = DataGeneratorSource(lambda i: i, None, 1000.0)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").print().uid("out")
client = env.execute_async("orders")
job = client.handle
while job.coordinator.checkpoints.completed < 2:
    assert not job.result().done()
    time.sleep(0.002)
"""
WAITS = "for _ in range(6000): time.sleep(0.1)\n"
"""By many short waits: a signal that comes just before a wait begins is heard behind it only."""
TAKEN_BY_WAITING = "wait for it with client.get_job_execution_result().result()"


def program(tmp_path: Path, end: str = "") -> Path:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(place=str(tmp_path / "checkpoints")) + end)
    return script


def newest(tmp_path: Path) -> int:
    found = tmp_path.glob("checkpoints/*/chk-*/_metadata")
    return max((int(path.parent.name.partition("-")[2]) for path in found), default=0)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "interrupted" in record.getMessage()]


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("", 1, TAKEN_BY_WAITING),
        ("sys.exit(3)\n", 3, ""),
        ("raise ValueError('mine')\n", 1, "ValueError: mine"),
    ],
)
def test_the_newest_checkpoint_is_kept_and_one_line_says_how_to_go_on(
    end: str, status: int, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with local_cluster(slots=2) as launcher:
        result = CliRunner().invoke(cli, ["run", "-p", "1", str(program(tmp_path, end))])
    assert result.exit_code == status, result.output
    assert said in result.stderr
    assert launcher.jobs[-1].status() is JobStatus.CANCELED
    (line,) = told(caplog)
    assert f"chk-{newest(tmp_path)}; go on with: " in line and newest(tmp_path) >= 2


def test_sigterm_while_the_program_waits_in_its_own_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a supervisor does it: outside of env.execute() Python would just be gone."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    over = threading.Event()
    try:
        with local_cluster(slots=2) as launcher:
            thread = threading.Thread(target=_terminate, args=(launcher, over))
            thread.start()
            result = CliRunner().invoke(cli, ["run", "-p", "1", str(program(tmp_path, WAITS))])
            over.set()
            thread.join(PATIENCE_S)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.exit_code == TERMINATED, result.output
    assert launcher.jobs[-1].status() is JobStatus.CANCELED
    (line,) = told(caplog)
    assert f"chk-{newest(tmp_path)}; go on with: " in line and newest(tmp_path) >= 2


def _terminate(launcher: LocalLauncher, over: threading.Event) -> None:
    while not (launcher.jobs and launcher.jobs[-1].coordinator.checkpoints.completed >= 2):
        assert not over.wait(0.002), "the program ended before it could be told to"
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_program_that_python_runs_says_what_became_of_its_job(tmp_path: Path) -> None:
    """Nobody ends the job there but the process: what was checkpointed stays, and is named."""
    script = program(tmp_path)
    script.write_text(
        "from penstock.testing.local import local_cluster\n"
        "cluster = local_cluster(slots=2)\n"
        "cluster.__enter__()\n" + script.read_text()
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    (line,) = [line for line in done.stderr.splitlines() if "go on with: " in line]
    assert "job 'orders' was running when its program ended" in line and TAKEN_BY_WAITING in line
    assert "its newest checkpoint is kept: " in line and newest(tmp_path) >= 2
