"""The same sinks on Spark: two slots in processes of their own, and every row there once."""

from __future__ import annotations

import multiprocessing as mp
import tempfile
from dataclasses import dataclass
from typing import Any

from benchmarks.sinks.cells import statements
from benchmarks.sinks.plan import TABLE, TABLES, Database, Sizes, Workload, sink
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.database.sink import Delivery
from penstock.core.clock import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource


@dataclass(frozen=True)
class OnSpark:
    """One job."""

    database: str
    delivery: str
    rows: int
    seconds: float
    """Of the whole job, its start on Spark included."""


def on_spark(database: Database, sizes: Sizes) -> list[OnSpark]:
    """A job for each delivery, in a process of its own, which takes the JVM with it when it ends."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_all, args=(database, sizes.spark_rows, theirs))
    process.start()
    theirs.close()
    results: list[OnSpark] = ours.recv()
    process.join()
    return results


def _run_all(database: Database, rows: int, pipe: Any) -> None:
    _run(database, Delivery.UPSERT, 100)  # the first job starts the JVM
    pipe.send([_run(database, delivery, rows) for delivery in Delivery])


def _run(database: Database, delivery: Delivery, rows: int) -> OnSpark:
    import pyarrow as pa

    def event(indices: Any) -> Any:  # in here, so that it travels to the slots by value
        return pa.record_batch(
            {
                "id": indices,
                "user_id": indices % 1000,
                "country": pa.array(["de"] * len(indices)),
                "amount": indices * 0.5,
                "at": pa.array(1_700_000_000_000_000 + indices * 1000, pa.timestamp("us")),
            }
        )

    workload = Workload.LARGE
    statements(database, f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} ({TABLES[workload]})")
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as checkpoints:
        config = Configuration()
        config.set_string("penstock.spark.master", "local[2]")
        config.set_string("penstock.slots.timeout", "3 min")
        config.set_string("execution.checkpointing.interval", "1 s")
        config.set_string("execution.checkpointing.dir", checkpoints)
        env = StreamExecutionEnvironment.get_execution_environment(config)
        env.set_parallelism(2)
        source = DataGeneratorSource(event, count=rows, columns=True)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "feed").uid("feed")
        stream.sink_to(sink(database, workload, delivery)).uid("sink")
        begun = clock.monotonic()
        env.execute(f"{database.name} {delivery.value}")
        seconds = clock.monotonic() - begun
    found = statements(database, f"SELECT COUNT(*), SUM(id) FROM {TABLE}")[-1][0]
    assert [int(value) for value in found] == [rows, rows * (rows - 1) // 2], f"the table holds {found}"
    return OnSpark(database.name, delivery.value, rows, seconds)
