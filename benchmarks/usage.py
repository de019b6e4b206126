"""What this process and all below it use: processor time, and the most memory they had together."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

SAMPLE_S = 0.25
_TICKS_S = os.sysconf("SC_CLK_TCK")


class Usage:
    """Processor seconds and peak of memory between entering and leaving.  Use ``with``.

    Processes that ended count with what their parents were told; memory is looked at a few times a second.
    """

    def __init__(self) -> None:
        self.processor_s = 0.0
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Usage:
        self._before = _processor_s()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.processor_s = _processor_s() - self._before

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self._look()

    def _look(self) -> None:
        self._most = max(self._most, sum(map(_resident, family(os.getpid()))))

    @property
    def peak_mb(self) -> float:
        return self._most / 1e6

    def figures(self) -> dict[str, float]:
        """Both, by name."""
        return {"processor_s": round(self.processor_s, 2), "peak_mb": round(self.peak_mb)}


def family(root: int) -> list[int]:
    """A process and all below it, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _fields(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _processor_s() -> float:
    ticks = (sum(map(int, fields[11:15])) for fields in map(_fields, family(os.getpid())) if fields)
    return sum(ticks) / _TICKS_S


def _resident(pid: int) -> int:
    """Bytes, where those that several processes share count in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
