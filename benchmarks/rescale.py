"""How long a job's output pauses while it is rescaled from 2 to 4 to 1; and that none is lost or doubled.

``python benchmarks/rescale.py --megabytes 100`` runs a job on Spark (``local[4]``) under load, rescales it in
place, then the old way, a savepoint, the end of the job and a new one from there (in the same session and
process, so without the start of either), and prints the longest time without new output around each.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import Consumer, Log, LogSink, LogSource, Producer, Text
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

KEYS = 1000
RATE = 1000
"""Records a second."""


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
        return max(later - sooner for sooner, later in zip([since, *times], times, strict=False))

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


def start(load: Load, root: Path, ballast: int, parallelism: int, savepoint: str | None) -> Any:
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "200 ms")
    config.set_string("execution.checkpointing.dir", str(root / "chk"))
    config.set_string("penstock.spark.master", "local[4]")
    config.set_string("penstock.rest.enabled", "false")
    if savepoint is not None:
        config.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    lines = env.from_source(LogSource(load.log.root, "in", Text()), WatermarkStrategy.no_watermarks(), "in")
    counted = lines.uid("in").key_by(lambda key: key).process(Count(ballast)).uid("count")
    counted.sink_to(LogSink(load.log.root, "out", Text())).uid("out")
    return env.execute_async("rescaled")


def phases(job: Any) -> str:
    """When the newest attempt came into each phase, in seconds from the end of the one before."""
    log = list(job.handle.coordinator.log)
    began = max(at for at, line in log if "-> STOPPING" in line)
    return ", ".join(f"{line.split()[2]} {(at - began) / 1000:.2f}" for at, line in log if at >= began)


def measured(load: Load, what: str, change: Any) -> None:
    load.settle()
    usual, began = load.gap(time.monotonic() - 3), time.monotonic()
    change()
    took = time.monotonic() - began
    load.settle()
    print(f"{what}: {took:.2f} s, output gap {load.gap(began):.2f} s (before: {usual:.2f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="state of the job")
    chosen = parser.parse_args()
    ballast = chosen.megabytes * 1_000_000 // KEYS
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        load = Load(root / "log")
        job = start(load, root, ballast, 2, None)
        load.settle()
        time.sleep(3)
        for parallelism in (4, 1):
            measured(
                load,
                f"in place, to {parallelism}",
                lambda wanted=parallelism: job.handle.rescale(wanted)[1].result(),
            )
            print("  of which, behind the checkpoint:", phases(job), flush=True)
        for parallelism in (4, 1):

            def anew(wanted: int = parallelism) -> None:
                nonlocal job
                place = job.stop_with_savepoint(False, str(root / "sp")).result()
                job.get_job_execution_result().result()
                job = start(load, root, ballast, wanted, place)

            measured(load, f"savepoint, stop and start, to {parallelism}", anew)
        lost, doubled = load.finish()
        job.cancel().result()
        print(f"{load.sent} records: lost={lost}, duplicated={doubled}")


if __name__ == "__main__":
    main()
