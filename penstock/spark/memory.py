"""What the machine says about memory: how much a process uses, how much it may, and whom the kernel killed.

Everything is zero or unlimited where the system does not tell (it is Linux that does).
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path

_PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the kernel tells: ``proc`` and the ``cgroups`` of version 2 or 1."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")

    def used_bytes(self) -> int:
        """Memory that this process uses now."""
        fields = _read(self.proc / "self/statm").split()
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def limit_bytes(self) -> int:
        """What this process may use at most: the machine's memory, or less if a control group says so."""
        total = re.search(r"MemTotal:\s*(\d+) kB", _read(self.proc / "meminfo"))
        limits = [int(total[1]) * 1024] if total else []
        for group in self._groups():
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = _read(group / name).strip()
                limits += [int(text)] if text.isdigit() else []
        return min(limits, default=0)

    def oom_kills(self) -> int:
        """How many processes the out-of-memory killer has ended, as near to this one as the kernel counts."""
        own = [
            group / name for group in self._groups()[:1] for name in ("memory.events", "memory.oom_control")
        ]
        counts = (_counted(path) for path in (*own, self.proc / "vmstat"))
        return next((count for count in counts if count is not None), 0)

    def _groups(self) -> list[Path]:
        """The control group of this process and those around it, innermost first."""
        places: dict[Path, str] = {}
        for line in _read(self.proc / "self/cgroup").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, name = rest.partition(":")
            if "memory" in controllers.split(","):
                places[self.cgroups / "memory"] = name
            elif number == "0":
                places[self.cgroups] = name
        if not places:
            return []
        # Where both versions are in use, memory is counted by whichever has that controller.
        root = max(places, key=lambda place: len(place.parts))
        inner = root / places[root].lstrip("/")
        if not inner.is_dir():  # a container sees its own group as the root
            inner = root
        around = [inner, *inner.parents]
        return around[: around.index(root) + 1]


def _counted(path: Path) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", _read(path), re.MULTILINE)
    return int(found[1]) if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
