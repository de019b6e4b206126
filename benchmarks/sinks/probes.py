"""What others see meanwhile: a reader that polls the table, and a writer that wants the same rows.

Both run in one process beside the job's, each on a thread and connection of its own.
"""

from __future__ import annotations

import multiprocessing as mp
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.sinks.plan import KEY, TABLE, Database, Workload
from penstock.connectors.database.connection import dialect_of
from penstock.core.clock import SystemClock

_READ_EVERY_S = 0.005
_WRITE_EVERY_S = 0.02


@dataclass
class Seen:
    """What the probes wrote down."""

    rows: list[tuple[float, int, int]] = field(default_factory=list)
    """When the reader saw a new value, under which key, and the value."""
    waits: list[float] = field(default_factory=list)
    """How long the writer's updates took."""


@contextmanager
def watched(database: Database, workload: Workload) -> Iterator[Seen]:
    """Probe the table during the block; the result is complete after it."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_probe, args=(database, workload, theirs), daemon=True)
    process.start()
    theirs.close()
    seen = Seen()
    try:
        assert ours.recv() == "ready"
        yield seen
        ours.send("stop")
        found: Seen = ours.recv()
        seen.rows, seen.waits = found.rows, found.waits
    finally:
        process.join(10)
        process.kill()


def _probe(database: Database, workload: Workload, pipe: Any) -> None:
    stop = threading.Event()
    seen = Seen()
    latest = [0]
    dialect = dialect_of(database.url, password=database.password)
    connections = [dialect.open(), dialect.open()]
    threads = [
        threading.Thread(target=probe, args=(connection, workload, stop, seen, latest))
        for probe, connection in zip((_read, _write), connections, strict=True)
    ]
    for thread in threads:
        thread.start()
    pipe.send("ready")
    pipe.recv()
    stop.set()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    pipe.send(seen)


def _read(connection: Any, workload: Workload, stop: threading.Event, seen: Seen, latest: list[int]) -> None:
    clock = SystemClock()
    query = f"SELECT k, v FROM {TABLE}" if workload is Workload.SMALL else f"SELECT 0, MAX(id) FROM {TABLE}"
    known: dict[int, int] = {}
    with connection.cursor() as cursor:
        last_look = False
        while not last_look:
            last_look = stop.is_set()
            cursor.execute(query)
            rows = cursor.fetchall()
            now = clock.monotonic()
            for key, value in rows:
                if value is not None and known.get(key) != value:
                    known[key] = value
                    seen.rows.append((now, key, value))
            if workload is Workload.LARGE and known:
                latest[0] = known[0]
            stop.wait(_READ_EVERY_S)


def _write(connection: Any, workload: Workload, stop: threading.Event, seen: Seen, latest: list[int]) -> None:
    clock = SystemClock()
    choose = random.Random(7)
    update = f"UPDATE {TABLE} SET touched = touched + 1 WHERE {KEY[workload]} = %s"
    with connection.cursor() as cursor:
        while not stop.wait(_WRITE_EVERY_S):
            row = choose.randrange(200) if workload is Workload.SMALL else latest[0]
            begun = clock.monotonic()
            cursor.execute(update, (row,))
            if cursor.rowcount:
                seen.waits.append(clock.monotonic() - begun)
