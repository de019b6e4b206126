"""Program: ``disturb.py`` with state on disk and barriers that overtake.

Same arguments; at the end says ``left <n>`` directories.
"""

from __future__ import annotations

import sys
from pathlib import Path

import disturb

from penstock.datastream.job import Program, run_as
from penstock.state.rocks.database import PREFIX


def main(master: str, work: Path, kind: str, graphs: list[str]) -> None:
    """Run all jobs on RocksDB, with hardly any cache, and unaligned checkpoints."""
    settings = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(work / "disk"),
        "penstock.rocksdb.cache.entries": "10",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    with run_as(Program(overrides=settings)):
        disturb.main(master, work, kind, graphs)
    print(f"left {len(list((work / 'disk').glob(f'{PREFIX}*')))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
