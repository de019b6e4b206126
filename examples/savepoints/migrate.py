"""A job moves: its savepoint is copied elsewhere and started with other slots and another state backend.

python migrate.py [DIRECTORY]
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from shop import expected, feed, orders, results, right_bonus, start, topics, wait_for, working_directory


def main(work: Path) -> None:
    """From one slot and memory to three slots and, where it is installed, RocksDB."""
    topics(work, "totals")
    lines = orders(0, 200)
    feed(work, lines[:100])
    job = start(work, right_bonus, parallelism=1)
    wait_for(job, work, 100)
    savepoint = job.stop_with_savepoint(False).result()

    there = work / "other cluster"
    shutil.move(savepoint.removeprefix("file://"), there / "from here")
    feed(work, lines[100:])
    backend = "rocksdb" if importlib.util.find_spec("rocksdict") else "hashmap"
    job = start(
        work,
        right_bonus,
        parallelism=3,
        execution__state_recovery__path=str(there / "from here"),
        execution__checkpointing__dir=str(there / "checkpoints"),
        state__backend__type=backend,
    )
    wait_for(job, work, 200)
    job.stop_with_savepoint(False).result()

    assert sorted(results(work)) == sorted(expected(lines, right_bonus))
    print(f"200 orders, each counted once, on 1 slot and then on 3 with backend {backend}")


if __name__ == "__main__":
    main(working_directory())
