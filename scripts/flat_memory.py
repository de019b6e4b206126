"""Memory of a job whose large rows queue up behind a slow consumer: it must stay flat.

``python scripts/flat_memory.py --minutes 10`` runs a job on Spark (``--local`` for one in this process): rows
of 50 kB (``--row-bytes``) from an endless source, every hundredth ten times as large, go through an exchange
to a step that takes its time for each.  Every ten seconds the resident memory of the processes that run the
consumer is printed.  Fails if it has grown from the first third of the run to the last by more than a fifth
and 32 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.builtin.datagen import DataGeneratorSource
from penstock.connectors.builtin.discard import DiscardingSink
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY_S = 10.0
GROWTH = 1.2
SLACK_BYTES = 32 << 20


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Slow:
    """Takes its time for each row, and writes down what its process occupies."""

    def __init__(self, notes: Path, pause_s: float) -> None:
        self._notes = notes
        self._pause_s = pause_s
        self._next = 0.0

    def __call__(self, row: bytes) -> int:
        time.sleep(self._pause_s)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 1.0
            with (self._notes / str(os.getpid())).open("a") as file:
                file.write(f"{resident()}\n")
        return len(row)


def start(args: argparse.Namespace, notes: Path, checkpoints: Path) -> Any:
    """The job, running."""
    config = Configuration()
    config.set_string("penstock.spark.master", args.master)
    config.set_string("execution.checkpointing.interval", "5 s")
    config.set_string("execution.checkpointing.dir", str(checkpoints))
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    size = args.row_bytes

    def row(n: int) -> bytes:
        return os.urandom(size * 10 if n % 100 == 0 else size)

    source = DataGeneratorSource(row)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "large rows").rebalance()
    stream.map(Slow(notes, args.pause_ms / 1000)).sink_to(DiscardingSink())
    return env.execute_async("flat memory")


def sizes(notes: Path) -> dict[int, list[int]]:
    """What each process has written down."""
    found: dict[int, list[int]] = defaultdict(list)
    for file in notes.iterdir():
        found[int(file.name)] = [int(line) for line in file.read_text().split()]
    return found


def watch(notes: Path, minutes: float) -> None:
    """Print memory until the time is over."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < 60 * minutes:
        time.sleep(min(EVERY_S, 60 * minutes - passed))
        known = [(pid, own[-1]) for pid, own in sorted(sizes(notes).items()) if own]
        shown = ", ".join(f"process {pid}: {size >> 20} MB" for pid, size in known)
        print(f"{time.monotonic() - began:6.0f} s  {shown or 'nothing yet'}", flush=True)


def judge(notes: Path) -> int:
    """How many processes have grown."""
    grown = 0
    for pid, own in sorted(sizes(notes).items()):
        third = len(own) // 3
        if third < 2:
            continue
        first, last = statistics.median(own[third // 2 : third]), statistics.median(own[-third:])
        flat = last <= GROWTH * first + SLACK_BYTES
        grown += not flat
        word = "flat" if flat else "GROWN"
        print(f"process {pid}: {first / 2**20:.0f} MB, then {last / 2**20:.0f} MB: {word}")
    return grown


def main(argv: list[str] | None = None) -> int:
    """Run the job, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--row-bytes", type=int, default=50_000)
    parser.add_argument("--pause-ms", type=float, default=5.0)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--local", action="store_true", help="in this process, without Spark")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        notes, checkpoints = Path(place) / "notes", Path(place) / "checkpoints"
        notes.mkdir()
        if args.local:
            stack.enter_context(local_cluster(2))
        job = start(args, notes, checkpoints)
        watch(notes, args.minutes)
        with contextlib.suppress(Exception):
            job.cancel().result(30)
        if not any(sizes(notes).values()):
            print("the consumer has seen no row")
            return 1
        return 1 if judge(notes) else 0


if __name__ == "__main__":
    sys.exit(main())
