"""What a heap snapshot costs: its synchronous part for small and large state, and its price in throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workloads import TallySink, environment

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

ROUNDS_AFTER_FILL = 2


class Remember(KeyedProcessFunction):
    """Keeps one number per key; emits nothing."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)


def synchronous_part(keys: int, checkpoints: Path) -> dict[str, float]:
    """Median and largest synchronous part (ms) and size of snapshots taken with ``keys`` keys held."""
    env = environment(checkpoints, execution_checkpointing_interval="300 ms")
    rate = max(keys, 100_000)
    source = DataGeneratorSource(lambda i: i % keys, max(keys, 300_000) + rate * ROUNDS_AFTER_FILL, rate)
    sink = TallySink()
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "keys")
        .key_by(lambda value: value)
        .process(Remember())
        .sink_to(sink)
    )
    handle = env.execute_async("bench-snapshot")
    handle.get_job_execution_result().result()
    history = handle.handle.coordinator.checkpoints.history
    full = [one for one in history if one["bytes"] >= 0.8 * max(each["bytes"] for each in history)]
    parts = sorted(one["sync_ms"] for one in full)
    return {
        "keys": keys,
        "snapshots": len(full),
        "bytes": max(one["bytes"] for one in full),
        "sync_ms_median": parts[len(parts) // 2],
        "sync_ms_max": parts[-1],
        "async_ms_median": sorted(one["async_ms"] for one in full)[len(full) // 2],
    }
