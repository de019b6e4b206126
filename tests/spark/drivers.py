"""Runs programs as real driver processes, each with its own session, temporary files and clean-up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from class_archive import quiet_environment
from processes import descendants, kill

from tests.patience import PATIENCE_S, PROGRAM_S

JOBS = Path(__file__).parent / "jobs"
ROOT = Path(__file__).parents[2]


class Driver:
    """A running program. Use ``with``: whatever is left of it at the end is killed, by pid."""

    def __init__(
        self,
        work: Path,
        script: str,
        *arguments: object,
        env: Mapping[str, str | None] | None = None,
        entry: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        """``env`` is what differs in the program's environment, ``None`` what is not in it."""
        scratch = work / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PENSTOCK_HOME": str(work / "home"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
            **quiet_environment(work),
            "_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
            **(env or {}),
        }
        self.process = subprocess.Popen(
            [*entry, sys.executable, str(JOBS / script), *map(str, arguments)],
            cwd=cwd or work,
            env={name: value for name, value in environment.items() if value is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return "\n".join(self.lines)

    def pids(self) -> list[int]:
        """The driver and all processes below it."""
        return [self.process.pid, *descendants(self.process.pid)]

    def wait_for(self, start: str, timeout_s: float = PATIENCE_S) -> str:
        """The first line that starts so."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if line.startswith(start):
                    return line
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no line {start!r} within {timeout_s:g} s; the program printed:\n{self.text}")

    def finish(self, timeout_s: float = PROGRAM_S) -> int:
        """Wait for the end; the exit code."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s:g} s; it printed:\n{self.text}") from None
        self._reader.join(PATIENCE_S)
        return int(self.process.returncode)

    def kill_all(self) -> None:
        """``kill -9`` of the driver, its JVM and everything below."""
        kill(*self.pids())
        self.process.wait(PATIENCE_S)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        kill(*_in_session(self.process.pid))
        self.process.wait(PATIENCE_S)


def _in_session(session: int) -> list[int]:
    """What is left of a program: also those whose parent is gone, which nothing but their session tells."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _session(pid) == session]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def run(
    work: Path,
    script: str,
    *arguments: object,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
) -> Driver:
    """Run a program to its end, which must be a good one."""
    with Driver(work, script, *arguments, env=env, cwd=cwd) as driver:
        code = driver.finish()
        assert code == 0, f"{script} ended with {code} and printed:\n{driver.text}"
    return driver
