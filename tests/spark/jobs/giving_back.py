"""Program: jobs that end in every way, one after the other in one session; what each leaves behind.

    giving_back.py MASTER WORK

Prints ``back <end>`` for each end behind which the driver and Spark's Python workers hold no more threads,
descriptors and files than before; fails at one that leaves something.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from held_resources import nothing_left
from processes import python_workers
from progress import TIMEOUT_S, environment, published, until

from penstock.common import WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream.connectors.data_gen import DataGeneratorSource

COUNT = 1000


def start(
    master: str, work: Path, fail_at: int = -1, count: int = COUNT, sticks_at: int = -1, **settings: str
) -> Any:
    """A job with an exchange, keyed state and checkpoints. It fails once at a record or always, or sticks."""
    broken, always = work / "broken", "restart_strategy__type" in settings

    def step(value: int) -> int:
        if value >= sticks_at >= 0:  # the job before may have got further than that
            broken.touch()
            time.sleep(TIMEOUT_S)
        if value == fail_at and (always or not broken.exists()):
            broken.touch()
            raise ValueError("this one")
        return value

    env = environment(master, work / "chk", **settings).set_parallelism(2)
    source = DataGeneratorSource(lambda i: i, count, 2000.0)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(step)
    numbers.key_by(lambda v: v % 7).reduce(lambda a, b: a + b).filter(lambda v: False).print()
    return env.execute_async("leaving nothing")


def finished(master: str, work: Path) -> None:
    start(master, work).get_job_execution_result().result(TIMEOUT_S)


def restarted(master: str, work: Path) -> None:
    client = start(master, work, COUNT // 2)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert client._handle.driver.restarts == 1


def failed(master: str, work: Path) -> None:
    try:
        client = start(master, work, COUNT // 2, restart_strategy__type="none")
        client.get_job_execution_result().result(TIMEOUT_S)
    except JobFailedError as error:
        assert "this one" in str(error), error


def cancelled(master: str, work: Path) -> None:
    client = start(master, work, count=10**9)
    until(lambda: published(client._handle) >= 2, "two snapshots are published")
    client.cancel().result(TIMEOUT_S)


def stuck(master: str, work: Path) -> None:
    """Spark kills a worker that does not end when its task is cancelled."""
    client = start(master, work, count=10**9, sticks_at=COUNT)
    until((work / "broken").exists, "a slot is stuck in the function")
    client.cancel().result(TIMEOUT_S)


def workers() -> list[tuple[int, int]]:
    """Threads and descriptors of each Python worker, those of one socket counted once.

    A worker that waits for its next task has two more for the socket to Spark than a moment before, when it
    ended the last one.
    """
    found = []
    for pid in python_workers(os.getpid()):
        try:
            opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            sockets = [target for target in opened if target.startswith("socket:")]
            held = len(opened) - len(sockets) + len(set(sockets))
            found.append((len(os.listdir(f"/proc/{pid}/task")), held))
        except OSError:
            continue  # it has just gone
    return found


def main(master: str, work: Path) -> None:
    """Run everything; what is opened once in a process is open after the first job and its restart."""
    ends = (finished, restarted, failed, cancelled, stuck)
    restarted(master, work)
    (work / "broken").unlink(missing_ok=True)
    most = [max(numbers) for numbers in zip(*workers(), strict=True)]
    for end in ends:
        with nothing_left(work / "tmp"):
            end(master, work)
        (work / "broken").unlink(missing_ok=True)
        until(
            lambda: all(threads <= most[0] and open_ <= most[1] for threads, open_ in workers()),
            "the workers have given back what they had",
        )
        print(f"back {end.__name__}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
