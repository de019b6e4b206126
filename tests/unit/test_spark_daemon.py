"""The daemon that workers are forked from is up whatever is in its directory, and they are told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UP = """
import sys
import penstock.spark.daemon as daemon
before = list(sys.path)
daemon.preload()
assert sys.path == before, sys.path
print("pandas" in sys.modules, "pyarrow.dataset" in sys.modules, sys.modules["numbers"].__file__)
"""
DRAWN = """
import os, random, threading, uuid
import penstock.spark.daemon as daemon

daemon.preload()
daemon.part_ways()
import numpy as np

print(threading.active_count())
for _ in range(2):
    if not (pid := os.fork()):
        own = np.random.random(), random.random(), uuid.uuid4()
        np.random.seed(7)
        if not (inner := os.fork()):
            print(*own, np.random.random() == np.random.RandomState(7).random(), flush=True)
            os._exit(0)
        os.waitpid(inner, 0)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def run(by: list[str], directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, *by],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",  # a port is told in bytes
        check=False,
    )


@pytest.mark.parametrize("by", [["-c", UP], ["-m", "started"]], ids=["by its text", "as a module"])
def test_files_beside_the_program_are_not_taken_for_modules_of_the_library(
    by: list[str], tmp_path: Path
) -> None:
    for name in ("numbers", "decimal", "fractions", "statistics"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a program of the user was run')\n")
    (tmp_path / "started.py").write_text(UP)
    done = run(by, tmp_path)
    assert done.returncode == 0, done.stderr
    pandas_is, arrow_is, numbers = done.stdout.split()
    assert (pandas_is, arrow_is) == ("True", "True") and not numbers.startswith(str(tmp_path))


def test_nor_for_those_that_the_daemon_itself_needs(tmp_path: Path) -> None:
    """It is up when it has told its port; that it may go it hears from the end of its input."""
    for name in (
        "json",
        "queue",
        "secrets",
        "selectors",
        "hmac",
        "ssl",
        "mmap",
        "ipaddress",
        "pathlib",
        "uuid",
    ):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a program of the user was run')\n")
    done = run(["-m", "penstock.spark.daemon", "pyspark.worker"], tmp_path)
    assert "was run" not in done.stderr and len(done.stdout) > 1, done.stderr


def test_a_directory_that_was_removed_keeps_no_daemon_from_its_work(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    removed = f"import os; os.rmdir({str(gone)!r})\n"
    done = run(["-c", removed + UP], gone)
    assert done.stdout.startswith("True True"), done.stderr


def test_workers_draw_different_numbers(tmp_path: Path) -> None:
    """A sample that every subtask takes alike is none. What a program of the user forks is left alone."""
    done = run(["-c", DRAWN], tmp_path)
    threads, *drawn = [line.split() for line in done.stdout.splitlines()]
    assert threads == ["1"], "behind a fork nobody would run them"
    first, second = drawn
    assert not set(first[:3]) & set(second[:3]), drawn
    assert first[3] == second[3] == "True", "what the user has seeded stays so in what the user forks"
