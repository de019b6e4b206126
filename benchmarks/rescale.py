"""How long a job's output pauses while it is rescaled from 2 to 4 to 1; and that none is lost or doubled.

``python benchmarks/rescale.py --megabytes 100 --rounds 3`` runs a job on Spark (``local[4]``) in a process of
its own, under load, and rescales it in place; then as ``penstock rescale`` did before: a savepoint, the end
of the process, and another one that goes on from there.  For each it prints how long it took until all tasks
ran, and the longest time without new output, seen by who reads it; at the end the medians as a table.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, JobStatus, WatermarkStrategy
from penstock.connectors.log import Consumer, Log, LogSink, LogSource, Producer, Text
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

KEYS = 1000
RATE = 1000
"""Records a second."""
FIRST = 2
STEPS = (4, 1, FIRST)


class Count(KeyedProcessFunction):
    """Counts each key, and keeps so many bytes with each."""

    def __init__(self, ballast: int) -> None:
        self._ballast = ballast

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))
        self._kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        if seen == 1:
            self._kept.update(bytes(self._ballast))
        yield f"{value} {seen}"


class Load:
    """Sends keys in turn from a thread, and sees when output becomes visible."""

    def __init__(self, root: Path) -> None:
        self.log = Log(root)
        self.log.create_topic("in", partitions=8)
        self.log.create_topic("out", partitions=2)
        self.sent = 0
        self.found: Counter[str] = Counter()
        self.times: list[float] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._look)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        began = time.monotonic()
        with Producer(self.log.topic("in")) as producer:
            while not self._over.wait(0.02):
                while self.sent < (time.monotonic() - began) * RATE:
                    key = f"k{self.sent % KEYS}".encode()
                    producer.send(key, key)
                    self.sent += 1
                producer.flush()

    def _look(self) -> None:
        with Consumer(self.log.topic("out")) as consumer:
            while not self._over.is_set() or sum(self.found.values()) < self.sent:
                batches = consumer.poll()
                for _, batch in batches:
                    self.found.update(value.decode() for value in batch.column("value").to_pylist())
                if batches:
                    self.times.append(time.monotonic())
                else:
                    time.sleep(0.01)

    def gap(self, since: float) -> float:
        """The longest time without new output since then, in seconds."""
        times = [at for at in list(self.times) if at >= since]
        times = [since, *times, time.monotonic()]
        return max(later - sooner for sooner, later in itertools.pairwise(times))

    def settle(self) -> None:
        """Until what was sent by now is there."""
        wanted = self.sent
        while sum(self.found.values()) < wanted:
            time.sleep(0.05)

    def finish(self) -> tuple[int, int]:
        """How many records were lost, and doubled."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        golden = {f"k{n % KEYS} {n // KEYS + 1}" for n in range(self.sent)}
        return len(golden - self.found.keys()), sum(self.found.values()) - len(self.found)


# --- the job, in a process of its own -----------------------------------------------------------


def start(root: Path, ballast: int, parallelism: int, savepoint: str) -> Any:
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "200 ms")
    config.set_string("execution.checkpointing.dir", str(root / "chk"))
    config.set_string("penstock.spark.master", "local[4]")
    config.set_string("penstock.rest.enabled", "false")
    if savepoint:
        config.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    log = root / "log"
    lines = env.from_source(LogSource(log, "in", Text()), WatermarkStrategy.no_watermarks(), "in")
    counted = lines.uid("in").key_by(lambda key: key).process(Count(ballast)).uid("count")
    counted.sink_to(LogSink(log, "out", Text())).uid("out")
    return env.execute_async("rescaled")


def phases(job: Any) -> str:
    """When the newest attempt came into each phase, in seconds from the end of the one before."""
    log = list(job.coordinator.log)
    began = max(at for at, line in log if "-> STOPPING" in line)
    return ", ".join(f"{line.split()[2]} {(at - began) / 1000:.2f}" for at, line in log if at >= began)


def run_job(root: Path, ballast: int, parallelism: int, savepoint: str) -> None:
    """Do what is asked for, line by line, and answer each with a line."""
    client = start(root, ballast, parallelism, savepoint)
    while client.get_job_status().result() is not JobStatus.RUNNING:
        time.sleep(0.01)
    print("running", flush=True)
    job = client._handle
    for line in sys.stdin:
        what, _, wanted = line.strip().partition(" ")
        if what == "rescale":
            job.rescale(int(wanted))[1].result()
            print(phases(job), flush=True)
        elif what == "state":
            print(int(job.coordinator.checkpoints.history[-1]["bytes"]), flush=True)
        else:
            place = client.stop_with_savepoint(False, wanted).result()
            client.get_job_execution_result().result()
            print(place, flush=True)
            return
    client.cancel().result()


class Job:
    """The process of the job."""

    def __init__(self, root: Path, ballast: int) -> None:
        self._root, self._ballast = root, ballast
        self._process = self._started(FIRST, "")

    def _started(self, parallelism: int, savepoint: str) -> subprocess.Popen[str]:
        """A new process; returns when its job runs."""
        work = ["--work", str(self._root), "--ballast", str(self._ballast)]
        job = ["--job", str(parallelism), "--savepoint", savepoint]
        process = subprocess.Popen(
            [sys.executable, __file__, *work, *job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._process = process
        while self._answer() != "running":
            pass
        return process

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the job's process has ended with status {self._process.wait()}")
        return line.strip()

    def ask(self, what: str) -> str:
        """Have something done; the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._answer()

    def in_place(self, parallelism: int) -> str:
        """As ``penstock rescale`` does; when the new slots came into each phase."""
        return f"behind the checkpoint: {self.ask(f'rescale {parallelism}')}, "

    def anew(self, parallelism: int) -> str:
        """As it did before."""
        place = self.ask(f"stop {self._root / 'sp'}")
        self._process.wait()
        self._process = self._started(parallelism, place)
        return ""

    def close(self) -> None:
        """The end of the job."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# --- what is measured ---------------------------------------------------------------------------

WAYS = {"in place": Job.in_place, "savepoint, end, new process": Job.anew}
Found = dict[tuple[str, str], list[tuple[float, float]]]


def play(load: Load, job: Job, rounds: int) -> Found:
    """Rescale it; by way and step, how long each took and the gap."""
    found: Found = defaultdict(list)
    for way in [*WAYS] * rounds:
        before = FIRST
        for after in STEPS:
            load.settle()
            time.sleep(3)
            usual, began = load.gap(time.monotonic() - 3), time.monotonic()
            told = WAYS[way](job, after)
            took = time.monotonic() - began
            load.settle()
            gap = load.gap(began)
            print(f"{way}, {before} to {after}: {took:.2f} s, output gap {gap:.2f} s (before: {usual:.2f} s)")
            print(f"  {told}load {os.getloadavg()[0]:.1f}", flush=True)
            found[way, f"{before} to {after}"].append((took, gap))
            before = after
    return found


def table(found: Found) -> str:
    """Medians."""
    lines = [f"| seconds | {' | '.join(f'{way}: in all | output gap' for way in WAYS)} |"]
    lines.append("| --- |" + " ---: |" * 2 * len(WAYS))
    for step in dict.fromkeys(step for _, step in found):
        columns = [column for way in WAYS for column in zip(*found[way, step], strict=True)]
        cells = [f"{statistics.median(column):.2f}" for column in columns]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="state of the job")
    parser.add_argument("--rounds", type=int, default=1, help="how often from 2 to 4 to 1 to 2, each way")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ballast", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--savepoint", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.job is not None:
        run_job(chosen.work, chosen.ballast, chosen.job, chosen.savepoint)
        return
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        load = Load(root / "log")
        job = Job(root, chosen.megabytes * 1_000_000 // KEYS)
        found = play(load, job, chosen.rounds)
        state = int(job.ask("state"))
        lost, doubled = load.finish()
        job.close()
    print(table(found))
    print(f"{load.sent} records, {state / 1e6:.0f} MB of state: lost={lost}, duplicated={doubled}")
    raise SystemExit(1 if lost or doubled else 0)


if __name__ == "__main__":
    main()
