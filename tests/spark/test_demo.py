"""The demo itself: a job on Spark, a worker killed, everything counted as the mode promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from class_archive import quiet_environment

from tests.patience import PROGRAM_S

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
LINE = r"exactly-once: ok events=20000 lost=0 duplicated=0 crashes=1 recovery_s=(\d+\.\d+)"
AT_LEAST = r"at-least-once: ok events=20000 lost=0 duplicated=\d+ crashes=1 recovery_s=\d+\.\d+"


def run_demo(tmp_path, *options, env=None):
    code = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", code, "demo", "--events", "20000", "--crashes", "1", *options]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PENSTOCK_HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        **(env or {}),
    }
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )


def test_a_worker_is_killed_and_nothing_is_lost_or_repeated(tmp_path):
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(LINE, done.stdout), done.stdout
    assert "killed Python worker" in done.stdout
    assert re.search(r"Its page, .*: http://127\.0\.0\.1:\d+/\?code=", done.stdout), done.stdout
    assert "█" in done.stdout and not (tmp_path / ".demo").exists(), "a chart of letters"
    assert not list(tmp_path.glob("penstock-demo-*")), "the work directory is removed"
    assert not list((tmp_path / "home" / "jobs").iterdir()), "the job is registered no more"


def test_at_least_once_a_killed_worker_loses_nothing(tmp_path):
    # The one above starts Java as users do; this one does it in the quick way.
    done = run_demo(tmp_path, "--mode", "at_least_once", env=quiet_environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(AT_LEAST, done.stdout), done.stdout
    assert "One of the two readers is slowed down" in " ".join(done.stdout.split())
