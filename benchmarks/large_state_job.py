"""A job on Spark with gigabytes of state in one slot: how soon after ``kill -9`` its first record comes.

The values are made from key and version alone, so whoever reads one knows whether it is right.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from usage import Usage

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import Consumer, Log, LogSink, LogSource, Producer, Text
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

ROW = 1000
"""Bytes of a value."""
_HEAD = 4
_NOISE = random.Random(1).randbytes(1 << 22)
"""What values are cut from: nothing that packs."""
_RATE = 500
"""Records a second while workers are killed."""
_PATIENCE_S = 1800.0
_MB = 1e6


def value_of(key: int, version: int) -> bytes:
    """What is kept for a key that was changed so often."""
    start = (key * 7919 + version * 104_729) % (len(_NOISE) - ROW)
    return version.to_bytes(_HEAD, "big") + _NOISE[start : start + ROW - _HEAD]


class Remember(KeyedProcessFunction):
    """Changes the value of each key that comes; says which version it found, or that it was wrong."""

    def __init__(self, marks: str) -> None:
        self._marks = marks

    def open(self, runtime_context: RuntimeContext) -> None:
        self._kept = runtime_context.get_state(ValueStateDescriptor("kept"))
        self._is_first = True
        self._mark("open")

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        key, kept = int(value), self._kept.value()
        if kept is None:
            self._kept.update(value_of(key, 0))
        else:
            version = int.from_bytes(kept[:_HEAD], "big")
            self._kept.update(value_of(key, version + 1))
            yield f"{key} {version + 1}" if kept == value_of(key, version) else f"{key} is wrong"
        if self._is_first:
            self._is_first = False
            self._mark("first")

    def _mark(self, what: str) -> None:
        with open(self._marks, "a") as file:
            file.write(f"{what} {os.getpid()} {time.monotonic()}\n")


class Recovery:
    """The job, what is sent to it, and what came out."""

    def __init__(self, place: Path, rows: int) -> None:
        self._place = place
        self._rows = rows
        self._marks = place / "marks"
        self._copies = place / "copies"
        self._log = Log(place / "log")
        for topic in ("in", "out"):
            self._log.create_topic(topic, partitions=1)
        self._sent: Counter[int] = Counter()
        self._found: Counter[str] = Counter()
        self._enough, self._over = threading.Event(), threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def run(self, kills: int) -> None:
        """Load, kill and measure, and compare with the truth."""
        self._start()
        with Usage() as used:
            began = time.monotonic()
            self._load()
            self._until(self._all_found, "the load is in a checkpoint")
        self._job_state(time.monotonic() - began, used.processor_s)
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        for with_copies in (True, False):
            for _ in range(kills):
                self._settle()
                self._kill(with_copies)
        self._enough.set()
        sender.join()
        self._until(self._all_found, "all output is there")
        self._settle()  # what is doubled would come with the next checkpoint
        self._over.set()
        self._reader.join()
        self._job.cancel().result()
        self._compare()

    def _start(self) -> None:
        config = Configuration()
        for key, value in {
            "execution.checkpointing.interval": "5 s",
            "execution.checkpointing.dir": str(self._place / "storage"),
            "execution.checkpointing.local-backup.enabled": "true",
            "execution.checkpointing.local-backup.dirs": str(self._copies),
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": str(self._place / "rocksdb"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20",
            "restart-strategy.fixed-delay.delay": "100 ms",
            "penstock.spark.master": "local[2]",
            "penstock.rest.enabled": "false",
        }.items():
            config.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(1)
        source = LogSource(self._log.root, "in", Text())
        keys = env.from_source(source, WatermarkStrategy.no_watermarks(), "keys").uid("keys")
        found = keys.key_by(int).process(Remember(str(self._marks))).uid("remember")
        found.sink_to(LogSink(self._log.root, "out", Text())).uid("found")
        self._job: Any = env.execute_async("large state")

    def _load(self) -> None:
        keys = list(range(self._rows))
        random.Random(2).shuffle(keys)
        with Producer(self._log.topic("in")) as producer:
            for number, key in enumerate([*keys, 0]):
                producer.send(str(key).encode())
                if number % 50_000 == 0:
                    producer.flush()
            producer.flush()
        self._sent[0] += 1

    def _send(self) -> None:
        rng = random.Random(3)
        with Producer(self._log.topic("in")) as producer:
            while not self._enough.wait(0.02):
                for key in [rng.randrange(self._rows) for _ in range(_RATE // 50)]:
                    producer.send(str(key).encode())
                    self._sent[key] += 1
                producer.flush()

    def _read(self) -> None:
        with Consumer(self._log.topic("out")) as consumer:
            while not self._over.is_set():
                batches = consumer.poll()
                for _, batch in batches:
                    self._found.update(value.decode() for value in batch.column("value").to_pylist())
                if not batches:
                    time.sleep(0.02)

    def _all_found(self) -> bool:
        return self._found.total() >= self._sent.total()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > deadline or self._job.handle.status().is_globally_terminal_state():
                raise RuntimeError(f"not seen: {what}")
            time.sleep(0.02)

    def _job_state(self, seconds: float, processor_s: float) -> None:
        newest = self._job.handle.coordinator.checkpoints.history[-1]
        print(
            f"recovery: {newest['bytes'] / _MB:,.0f} MB of state in one slot, loaded through a job in "
            f"{seconds:.0f} s ({processor_s:.0f} processor seconds)",
            flush=True,
        )

    def _settle(self) -> None:
        """Two checkpoints of the attempt that runs."""
        taken = self._job.handle.coordinator.checkpoints
        wanted = taken.completed + 2
        self._until(lambda: taken.completed >= wanted, "two checkpoints")

    def _kill(self, with_copies: bool) -> None:
        pid = int(self._marked("open")[-1][0])
        seen = len(self._marked("first"))
        if not with_copies:
            for place in self._copies.iterdir():
                shutil.rmtree(place)
        with Usage() as used:
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            self._until(lambda: len(self._marked("first")) > seen, "a first record")
        restored, first = (float(self._marked(what)[-1][1]) - began for what in ("open", "first"))
        where = "copies on the worker's disk" if with_copies else "the storage"
        print(
            f"  killed, restored from {where}: first record after {first:.2f} s (state opened after "
            f"{restored:.2f} s; {used.processor_s:.1f} processor seconds); {self._phases()}",
            flush=True,
        )

    def _marked(self, what: str) -> list[list[str]]:
        lines = self._marks.read_text().splitlines()
        return [line.split()[1:] for line in lines if line.startswith(what) and len(line.split()) == 3]

    def _phases(self) -> str:
        """When the newest attempt came into each phase, in seconds from the end of the one before."""
        log = list(self._job.handle.coordinator.log)
        began = max(at for at, line in log if "-> STOPPING" in line)
        return ", ".join(f"{line.split()[2]} {(at - began) / 1000:.2f}" for at, line in log if at >= began)

    def _compare(self) -> None:
        golden = {f"{key} {version}" for key, times in self._sent.items() for version in range(1, times + 1)}
        lost, doubled = len(golden - self._found.keys()), self._found.total() - len(self._found)
        wrong = len(self._found.keys() - golden)
        print(f"  {self._sent.total()} records: lost={lost}, duplicated={doubled}, wrong={wrong}", flush=True)
        if lost or doubled or wrong:
            sys.exit("the results are wrong")
