"""A memory control group of one's own, where this machine lets tests make one."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S

CGROUPS = Path("/sys/fs/cgroup")
WHY_NOT = "this machine lets tests make no memory control group (it takes root, or a delegated group)"


@contextmanager
def memory_group() -> Iterator[Path | None]:
    """A new group below that of this process, without a limit yet; ``None`` if there can be none."""
    group = _made()
    yield group
    if group is not None:
        deadline = time.monotonic() + PATIENCE_S
        while group.exists():
            assert time.monotonic() < deadline, f"{group} still has processes"
            with contextlib.suppress(OSError):  # what was killed a moment ago has not left yet
                group.rmdir()
            time.sleep(0.02)


def _made() -> Path | None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, name = line.split(":", 2)
        if "memory" not in controllers.split(",") and number != "0":
            continue
        around = (CGROUPS if number == "0" else CGROUPS / "memory") / name.lstrip("/")
        group = around / f"penstock-{uuid.uuid4().hex[:12]}"
        with contextlib.suppress(OSError):
            group.mkdir()
            if any((group / name).exists() and os.access(group / name, os.W_OK) for name in _LIMITS):
                return group
            group.rmdir()
    return None


_LIMITS = ("memory.limit_in_bytes", "memory.max")
