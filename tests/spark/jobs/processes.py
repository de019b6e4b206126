"""Finding the processes below one we started, by reading ``/proc``: to kill them, and to clean up."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def command_line(pid: int) -> str:
    """How a process was started; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(entry.name)] = int(parent)
    return found


def descendants(root: int) -> list[int]:
    """Living processes below ``root``, parents before children."""
    parents = _parents()
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def is_daemon(command: str) -> bool:
    """Whether it is PySpark's daemon, or the one of Penstock's own sessions."""
    return "pyspark.daemon" in command or "penstock.spark.daemon" in command


def python_workers(root: int) -> list[int]:
    """The forked children of Spark's Python daemons below ``root``."""
    parents = _parents()
    return [
        pid
        for pid in descendants(root)
        if is_daemon(command_line(pid)) and is_daemon(command_line(parents.get(pid, 0)))
    ]


def executors(root: int) -> list[int]:
    """The executor JVMs of a ``local-cluster`` below ``root``."""
    return [pid for pid in descendants(root) if "CoarseGrainedExecutorBackend" in command_line(pid)]


def kill(*pids: int) -> None:
    """``kill -9``; those already gone are fine."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
