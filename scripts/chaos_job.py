"""The program that ``chaos.py`` disturbs: one job after the other, each a round.

    chaos_job.py MASTER WORK FIRST_ROUND

A round counts keys and writes into files and a log, exactly once.  Prints ``round <n> published <count>
generation <g>`` for each snapshot, ``round <n> worker <pid>`` for each process that got records, and
``round <n> done`` at the end.  A round ends after ``WORK/gate-<n>`` appears, the program after
``WORK/stop``.  Started again with the round it was killed in, it goes on there.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "spark" / "jobs")]

from flow_graphs import KEYS, Pace, SumUp, log_sink, text_file_sink  # noqa: E402
from progress import COUNT, RATE, environment, published, until  # noqa: E402

from penstock.common import WatermarkStrategy  # noqa: E402
from penstock.datastream import StreamExecutionEnvironment  # noqa: E402
from penstock.demo.drive import FirstBatch, Probe  # noqa: E402

HEARTBEAT_TIMEOUT_S = 3


def run_round(master: str, work: Path, number: int) -> None:
    """One job, from its start or from its newest snapshot to its end."""
    env = environment(
        master,
        work / "checkpoints",
        heartbeat__interval="500 ms",
        heartbeat__timeout=f"{HEARTBEAT_TIMEOUT_S} s",
        restart_strategy__fixed_delay__attempts="1000",
        execution__checkpointing__tolerable_failed_checkpoints="1000",
        spark__executor__cores="1",
        spark__executor__memory="512m",
    ).set_parallelism(2)
    _build(env, work, number)
    job = env.execute_async(f"round {number}")._handle
    watch = Watch(job)
    while not job.result().done():
        until(watch.moved, "another snapshot")
        print(f"round {number} published {watch.seen} generation {watch.generation}", flush=True)
    job.result().result(1)
    print(f"round {number} done", flush=True)


def _build(env: StreamExecutionEnvironment, work: Path, number: int) -> None:
    out = work / f"round-{number}"
    source = Pace(RATE, work / f"gate-{number}").source(lambda i: (i % KEYS, i), COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    expected = dict(Counter(i % KEYS for i in range(COUNT)))
    result = numbers.key_by(lambda pair: pair[0]).process(SumUp(expected)).uid("sum")
    result.sink_to(text_file_sink(out / "file")).uid("file")
    result.sink_to(log_sink(out / "log")).uid("log")
    result.sink_to(Workers(number)).uid("workers")


class Workers(Probe):
    """Prints which processes the slots are in: a daemon keeps idle workers too, which nobody would miss."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def on_driver_message(self, message: FirstBatch) -> None:
        print(f"round {self._number} worker {message.pid}", flush=True)


class Watch:
    """Counts snapshots, and says of which attempt each is.

    By the time one is seen, the next attempt may have begun.  So it gets the generation of the look before:
    never one too high, which would pass for a recovery that has not happened.
    """

    def __init__(self, job: Any) -> None:
        self._job = job
        self._newest = int(job.coordinator.generation)
        self.generation = self._newest
        self.seen = 0

    def moved(self) -> bool:
        """Look again; true if there is a new one or the job is over."""
        self.generation, self._newest = self._newest, int(self._job.coordinator.generation)
        before, self.seen = self.seen, published(self._job)
        return self.seen > before or bool(self._job.result().done())


def main(master: str, work: Path, first: int) -> None:
    """Rounds until told to stop."""
    for number in itertools.count(first):
        if (work / "stop").exists():
            return
        run_round(master, work, number)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
