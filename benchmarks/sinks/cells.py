"""One cell of the table: a job on the in-process cluster with one subtask, probed from outside.

Coordinator, snapshots and commits are the real ones; only Spark is not there, so that what is measured
is the sink and the database.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from benchmarks.sinks import feed
from benchmarks.sinks.plan import TABLE, TABLES, Database, Sizes, Workload, sink
from benchmarks.sinks.probes import Seen, watched
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.database.connection import dialect_of
from penstock.connectors.database.sink import Delivery
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster


@dataclass(frozen=True)
class Cell:
    """What is measured."""

    database: str
    workload: str
    delivery: str
    interval_s: float
    rows: int
    rows_per_s: float
    """From the first record made to the last one seen."""
    latency_p50_s: float
    latency_p99_s: float
    wait_p50_ms: float
    wait_p99_ms: float
    wait_max_ms: float
    waits: float
    """How many updates of the competing writer that is about."""


def measure(database: Database, workload: Workload, delivery: Delivery, number: int, sizes: Sizes) -> Cell:
    """Run the job with the ``number``-th interval."""
    interval = sizes.intervals_s[number]
    rows = sizes.large_rows[number]
    if workload is Workload.SMALL:
        rows = int(sizes.small_s[number] * feed.SMALL_RATE)
    statements(database, f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} ({TABLES[workload]})")
    feed.BIRTHS.clear()
    with watched(database, workload) as seen:
        _run(database, workload, delivery, interval, rows)
    found = statements(database, f"SELECT COUNT(*) FROM {TABLE}")[-1][0][0]
    expected = feed.KEYS if workload is Workload.SMALL else rows
    assert found == expected, f"{found} rows in the table, not {expected}"
    return _cell(database, workload, delivery, interval, rows, seen)


def idle(database: Database, seconds: float = 1.0) -> dict[str, float]:
    """How long the competing writer's updates take when no job runs."""
    rows = ", ".join(f"({k}, 0, 0)" for k in range(feed.KEYS))
    statements(
        database,
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} ({TABLES[Workload.SMALL]})",
        f"INSERT INTO {TABLE} (k, v, total) VALUES {rows}",
    )
    with watched(database, Workload.SMALL) as seen:
        Event().wait(seconds)
    return _waits(seen)


def _waits(seen: Seen) -> dict[str, float]:
    waits = np.array(seen.waits or [0.0]) * 1000
    return {
        "wait_p50_ms": float(np.percentile(waits, 50)),
        "wait_p99_ms": float(np.percentile(waits, 99)),
        "wait_max_ms": float(waits.max()),
        "waits": len(seen.waits),
    }


def statements(database: Database, *queries: str) -> list[Any]:
    """Run statements; the rows of each."""
    connection = dialect_of(database.url, password=database.password).open()
    try:
        with connection.cursor() as cursor:
            results = []
            for query in queries:
                cursor.execute(query)
                results.append(cursor.fetchall() if cursor.description else [])
            return results
    finally:
        connection.close()


def _run(database: Database, workload: Workload, delivery: Delivery, interval: float, rows: int) -> None:
    with tempfile.TemporaryDirectory() as checkpoints, local_cluster(slots=1):
        config = Configuration()
        config.set_string("execution.checkpointing.interval", f"{interval * 1000:.0f} ms")
        config.set_string("execution.checkpointing.dir", checkpoints)
        env = StreamExecutionEnvironment.get_execution_environment(config)
        env.set_parallelism(1)
        is_small = workload is Workload.SMALL
        source = DataGeneratorSource(
            feed.small if is_small else feed.large,
            count=rows,
            rate_per_second=feed.SMALL_RATE if is_small else None,
            columns=True,
        )
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "feed").uid("feed")
        stream.sink_to(sink(database, workload, delivery)).uid("sink")
        env.execute(f"{database.name} {delivery.value}")


def _cell(
    database: Database, workload: Workload, delivery: Delivery, interval: float, rows: int, seen: Seen
) -> Cell:
    latencies = _latencies(workload, rows, seen, interval)
    return Cell(
        database.name,
        workload.value,
        delivery.value,
        interval,
        rows,
        rows / (seen.rows[-1][0] - feed.BIRTHS[0][2]),
        float(np.percentile(latencies, 50)),
        float(np.percentile(latencies, 99)),
        **_waits(seen),
    )


def _latencies(workload: Workload, rows: int, seen: Seen, interval: float) -> Any:
    """From a record's birth until a reader saw it, or what has replaced it under its key.

    The last interval does not count, if there is more: when the input ends, the job commits at once.
    """
    births = np.empty(rows)
    for first, count, born in feed.BIRTHS:
        births[first : first + count] = born
    visible = np.full(rows, np.nan)
    keys = feed.KEYS if workload is Workload.SMALL else 1
    known: dict[int, int] = {}
    for at, key, value in seen.rows:
        visible[known.get(key, key) : value + 1 : keys] = at
        known[key] = value + keys
    latencies = visible - births
    counted = births < births[-1] - interval
    return latencies[counted] if counted.any() else latencies
