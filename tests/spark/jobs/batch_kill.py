"""Program: a BATCH job that loses an executor while its second stage runs.

    batch_kill.py MASTER WORK

Prints ``killed <pid>``, and ``done`` at the end.  The second stage waits in the middle until somebody was
killed; the map output of the first stage that was on that executor is gone as well.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flow_graphs import SINKS
from processes import executors, kill
from progress import environment, until

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, RuntimeExecutionMode
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor

COUNT, KEYS = 20_000, 97


class Slow(KeyedProcessFunction):
    """Counts a key's records; in the middle of its work it waits for the gate."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))
        self.seen = 0

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.seen += 1
        if self.seen == COUNT // 20:
            (self.work / "middle").touch()
            while not (self.work / "gate").exists():
                time.sleep(0.02)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()}:{count}:{value}"


def golden() -> list[str]:
    """The output, sorted."""
    return sorted(f"{n % KEYS}:{1 + n // KEYS}:{n}" for n in range(COUNT))


def kill_one(work: Path) -> None:
    """Wait until the second stage is at work, kill an executor, and let the job go on."""
    until((work / "middle").exists, "the second stage has begun")
    found = executors(os.getpid())
    kill(found[-1])
    print(f"killed {found[-1]}", flush=True)
    (work / "gate").touch()


def main(master: str, work: Path) -> None:
    """Run it."""
    env = environment(master, None).set_parallelism(4).set_runtime_mode(RuntimeExecutionMode.BATCH)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(NumberSequenceSource(0, COUNT - 1), strategy, "numbers")
    counted = numbers.key_by(lambda n: n % KEYS).process(Slow(work)).name("count")
    for kind in ("log", "file"):
        counted.sink_to(SINKS[kind][0](work / kind))
    killer = threading.Thread(target=kill_one, args=(work,))
    killer.start()
    env.execute("killed")
    killer.join()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
