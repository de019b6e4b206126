"""One look at a running job: memory, threads and descriptors of its processes, files of its directories."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "spark" / "jobs")]

from processes import command_line  # noqa: E402
from soak_growth import Allowance  # noqa: E402

from penstock.snapshot.paths import epoch_of, is_manifest  # noqa: E402

ALLOWED = {
    "driver_mb": Allowance(0.05, 10),
    "jvm_mb": Allowance(0.15, 50),
    "workers_mb": Allowance(0.10, 20),
    "threads": Allowance(0.10, 8),
    "descriptors": Allowance(0.10, 8),
    "checkpoint_files": Allowance(0.10, 10),
    "checkpoint_kb": Allowance(0.10, 200),
    "journal_entries": Allowance(0.10, 5),
    "manifest_kb": Allowance(0.05, 1),
    "log_files": Allowance(0.10, 10),
    "log_kb": Allowance(0.10, 200),
}
"""What is looked at, and how much more of it at the end is no growth."""


@dataclass(frozen=True, slots=True)
class Process:
    """What ``/proc`` says of a process."""

    kb: int
    threads: int
    descriptors: int
    is_java: bool


def look_at(pid: int) -> Process | None:
    """``None`` if it is gone."""
    place = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        descriptors = sum(1 for _ in (place / "fd").iterdir())
    except OSError:
        return None
    kb = int(status.get("VmRSS", "0 kB").split()[0])
    return Process(kb, int(status["Threads"]), descriptors, is_java(pid))


def is_java(pid: int) -> bool:
    """By what runs, not by its arguments: those of a JVM name Python's daemon, too."""
    return command_line(pid).split(" ")[0].endswith("java")


def session(driver: int) -> list[int]:
    """The driver and all that it started. Not found by descent: whose parent was killed has another one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(int(entry.name)) == driver:
                    found.append(int(entry.name))
    return found


def files_below(directory: Path) -> Iterator[tuple[Path, int]]:
    """Files and their sizes; those that vanish meanwhile are left out, and so are directories that do."""
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                yield path, path.stat().st_size


def sample(driver: int, work: Path) -> dict[str, float] | None:
    """All that is looked at, by name; ``None`` if the driver is gone."""
    main = look_at(driver)
    below = [found for pid in session(driver) if pid != driver and (found := look_at(pid))]
    if main is None:
        return None
    checkpoints = list(files_below(work / "checkpoints"))
    log = list(files_below(work / "log"))
    manifests = [
        (epoch, size)
        for path, size in checkpoints
        if is_manifest(path.name) and (epoch := epoch_of(f"{path.parent.name}/{path.name}")) is not None
    ]
    newest = max(manifests, default=(0, 0))
    return {
        "driver_mb": main.kb / 1024,
        "jvm_mb": sum(each.kb for each in below if each.is_java) / 1024,
        "workers_mb": sum(each.kb for each in below if not each.is_java) / 1024,
        "threads": main.threads + sum(each.threads for each in below),
        "descriptors": main.descriptors + sum(each.descriptors for each in below),
        "checkpoint_files": len(checkpoints),
        "checkpoint_kb": sum(size for _, size in checkpoints) / 1024,
        "journal_entries": sum(path.parent.name == "journal" for path, _ in checkpoints),
        "manifest_kb": newest[1] / 1024,
        "log_files": len(log),
        "log_kb": sum(size for _, size in log) / 1024,
    }
