"""Program: a frame through a job into a function that gets every epoch, and dies once in the middle of it.

    epochs.py MASTER WORK

The first driver kills itself when the function has written its first epoch and nobody knows of it yet.  The
second one finds another frame where the first one was: it must go on with the rows of the first.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from progress import environment

from penstock.spark.session import start_session

ROWS = 1600


def slowly(batch: Any) -> Any:
    """So that there are many epochs."""
    time.sleep(0.1)
    return batch


def main(master: str, work: Path) -> None:
    """Run it."""
    env = environment(master, work / "chk", penstock__batch__max_rows="40")
    env.set_parallelism(2).enable_checkpointing(1000)
    spark = start_session(env.configuration())
    killed = work / "killed"
    calls = work / "calls"
    first = 1_000_000 if killed.exists() else 0
    frame = spark.range(first, first + ROWS, 1, 4)

    def keep(rows: Any, epoch: int) -> None:
        ids = sorted(row["id"] for row in rows.collect())
        (work / f"epoch-{epoch}").write_text(f"{ids}")
        with calls.open("a") as file:
            file.write(f"{epoch} {ids}\n")
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    env.from_dataframe(frame).uid("in").map_batches(slowly).for_each_epoch(keep).uid("out")
    env.execute("epochs")
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
