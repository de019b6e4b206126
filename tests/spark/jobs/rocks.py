"""Program: ``disturb.py`` with state on disk, copies of its checkpoints, and barriers that overtake.

Same arguments.  Says ``copies`` as soon as there are some, and at the end ``left <n>`` directories.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import disturb
from progress import until

from penstock.datastream.job import Program, run_as
from penstock.state.rocks.database import PREFIX


def main(master: str, work: Path, kind: str, graphs: list[str]) -> None:
    """Run all jobs on RocksDB, with hardly any cache, and unaligned checkpoints."""
    settings = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(work / "disk"),
        "penstock.rocksdb.cache.entries": "10",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.local-backup.enabled": "true",
        "execution.checkpointing.local-backup.dirs": str(work / "copies"),
    }
    threading.Thread(target=look_for_copies, args=[work / "copies"], daemon=True).start()
    with run_as(Program(overrides=settings)):
        disturb.main(master, work, kind, graphs)
    left = [*(work / "disk").glob(f"{PREFIX}*"), *(work / "copies").glob("*/*-*")]
    print(f"left {len(left)}", flush=True)


def look_for_copies(place: Path) -> None:
    """Tell when a slot has kept something."""
    until(lambda: any(place.glob("penstock-backup-*/*/*")), "there are copies")
    print("copies", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
