"""State of a BATCH job with very many keys: how much memory its Python workers take.

    python benchmarks/batch_keys.py [KEYS] [EXECUTOR_MEMORY_MB]

Every key has two records, a value state and a timer.  One executor with two cores.  Prints the largest
resident size that any Python worker had, and that of the executor's JVM.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

MB = 1 << 20


class Twice(KeyedProcessFunction):
    """Counts the records of a key; its timer tells."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**12)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        yield self.count.value()


class Memory:
    """Largest resident sizes of processes below this one, by kind; sampled by a thread."""

    def __init__(self) -> None:
        self.largest = {"worker": 0, "executor": 0}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    self._look(entry)
            time.sleep(1)

    def _look(self, entry: Path) -> None:
        try:
            command = (entry / "cmdline").read_bytes()
            kind = "worker" if b"daemon" in command and b"pyspark" in command else ""
            kind = "executor" if b"CoarseGrainedExecutorBackend" in command else kind
            if kind and b"PENSTOCK_KEYS=1" in (entry / "environ").read_bytes():
                pages = int((entry / "statm").read_text().split()[1])
                self.largest[kind] = max(self.largest[kind], pages * os.sysconf("SC_PAGE_SIZE"))
        except OSError:
            pass


def main(keys: int, memory_mb: int) -> None:
    """Run it."""
    os.environ["PENSTOCK_KEYS"] = "1"
    config = Configuration()
    config.set_string("penstock.spark.master", f"local-cluster[1,2,{memory_mb}]")
    config.set_string("spark.executor.memory", f"{memory_mb}m")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(4)
    source = DataGeneratorSource(lambda index: index % keys, 2 * keys)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value)
    numbers = env.from_source(source, strategy, "numbers")
    counted = numbers.key_by(lambda value: value).process(Twice())
    sums = counted.map_batches(lambda rows: [(len(rows), sum(rows))], format="rows")
    watch = Memory()
    began = time.monotonic()
    found = np.array(list(sums.execute_and_collect("keys")))
    took = time.monotonic() - began
    assert found.sum(axis=0).tolist() == [keys, 2 * keys], found.sum(axis=0)
    sizes = ", ".join(f"{kind} {size / MB:.0f} MB" for kind, size in watch.largest.items())
    print(f"{keys:,} keys, {2 * keys:,} records in {took:.0f} s; largest resident sizes: {sizes}", flush=True)


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    main(*(arguments + [10_000_000, 2048][len(arguments) :]))
