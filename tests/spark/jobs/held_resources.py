"""What this process holds: threads, descriptors, files; and whether it all is back after the end of a job."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOKS, PAUSE_S = 3000, 0.1


def threads() -> Counter[str]:
    """Living threads, by name."""
    return Counter(thread.name for thread in threading.enumerate() if thread.is_alive())


def descriptors(process: int | str = "self") -> Counter[str]:
    """Open descriptors of a process, by what they are: files by path, others by kind."""
    found: Counter[str] = Counter()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue  # the one this listing was read through
        found[target.split(":[")[0]] += 1
    return found


def files(*roots: Path) -> Counter[str]:
    """Files below some directories; not those in which living Python workers would say how they crashed."""
    found = (path for root in roots for path in root.rglob("*") if path.is_file())
    return Counter(str(path) for path in found if not _of_living_worker(path))


def _of_living_worker(path: Path) -> bool:
    return path.parent.name.startswith("faulthandler-") and Path("/proc", path.name).exists()


@contextmanager
def nothing_left(*roots: Path) -> Iterator[None]:
    """Behind the block, soon, there is no thread, descriptor or file more than before it."""
    gc.collect()
    before = threads(), descriptors(), files(*roots)

    def extra() -> list[str]:
        gc.collect()
        after = threads(), descriptors(), files(*roots)
        return [
            f"{n} x {what}" for was, now in zip(before, after, strict=True) for what, n in (now - was).items()
        ]

    yield
    for _ in range(LOOKS):
        if not extra():
            return
        time.sleep(PAUSE_S)
    raise AssertionError(f"left behind: {extra()}")
