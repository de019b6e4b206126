"""Kill -9 between prepare and commit: what is left, what it blocks, and what takes it away.

The writer is driven directly, in a process of its own: 200 rows, a barrier, and then that process is
killed, as if the machine had gone after the checkpoint was published and before the commit.
"""

from __future__ import annotations

import multiprocessing as mp
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.sinks.cells import statements
from benchmarks.sinks.feed import KEYS, small
from benchmarks.sinks.plan import TABLE, TABLES, Database, Sizes, Workload, sink
from benchmarks.sinks.views import DbaView, view_of
from penstock.connectors.database.connection import dialect_of
from penstock.connectors.database.sink import Delivery
from penstock.connectors.sink import WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import SystemClock
from penstock.core.ids import Epoch
from penstock.testing.servers import Server

_clock = SystemClock()


@dataclass(frozen=True)
class Crash:
    """What was found, for one database and delivery."""

    database: str
    delivery: str
    left: list[str]
    """What a DBA sees, line by line."""
    read: str
    """How a SELECT of the row fared; so on for the others: a time, or that it was blocked."""
    update: str
    alter: str
    garbage: str
    """Old row versions that the database could not remove meanwhile."""
    after_server_restart: str
    update_after_server_restart: str
    release_ms: float
    """How long a restarted job's commit took to give everything free."""
    update_after_release: str
    by_hand: str
    by_hand_ms: float


def crash(database: Database, delivery: Delivery, server: Server, sizes: Sizes) -> Crash:
    """Kill, look, restart the server, look again, let a new committer finish; then once more, by hand."""
    view = view_of(database, sizes.lock_wait_s)
    _fresh_tables(database, sizes)
    commands = view.by_hand(_killed(database, delivery))
    begun = _clock.monotonic()
    if commands:
        statements(database, *commands)
    by_hand_ms = (_clock.monotonic() - begun) * 1000

    _fresh_tables(database, sizes)
    committables = _killed(database, delivery)
    left, commands = view.left(), view.by_hand(committables)
    read, update, alter = _statements(view)
    garbage = view.garbage(sizes.crash_rows)
    server.restart()
    still = view.left()
    after_restart = view.timed(f"UPDATE {TABLE} SET touched = touched + 1 WHERE k = 5")
    release_ms = _commit(database, delivery, committables)
    released = view.timed(f"UPDATE {TABLE} SET touched = touched + 1 WHERE k = 5")
    return Crash(
        database.name,
        delivery.value,
        left,
        read,
        update,
        alter,
        garbage,
        "still there" if still and len(still) == len(left) else "nothing",
        after_restart,
        release_ms,
        released,
        "; ".join(commands) or "nothing to do",
        by_hand_ms,
    )


def _statements(view: DbaView) -> tuple[str, str, str]:
    read = view.timed(f"SELECT v FROM {TABLE} WHERE k = 5")
    update = view.timed(f"UPDATE {TABLE} SET touched = touched + 1 WHERE k = 5")
    alter = view.timed(f"ALTER TABLE {TABLE} ADD COLUMN note VARCHAR(9)")
    return read, update, alter


def _fresh_tables(database: Database, sizes: Sizes) -> None:
    rows = ", ".join(f"({k}, 0, 0)" for k in range(KEYS))
    others = ", ".join(f"({k}, 0)" for k in range(sizes.crash_rows))
    statements(
        database,
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} ({TABLES[Workload.SMALL]})",
        f"INSERT INTO {TABLE} (k, v, total) VALUES {rows}",
        f"DROP TABLE IF EXISTS {TABLE}_beside",
        f"CREATE TABLE {TABLE}_beside (k INT PRIMARY KEY, v INT)",
        f"INSERT INTO {TABLE}_beside VALUES {others}",
    )


def _killed(database: Database, delivery: Delivery) -> list[Any]:
    """Committables of a writer whose process is no more."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_victim, args=(database, delivery, theirs), daemon=True)
    process.start()
    theirs.close()
    committables: list[Any] = ours.recv()
    process.kill()
    process.join()
    return committables


def _victim(database: Database, delivery: Delivery, pipe: Any) -> None:
    made = sink(database, Workload.SMALL, delivery)
    made.check()
    writer = made.create_writer(
        WriterContext("bench", "crash", 0, 1, 1, None, (), True, _clock, lambda message: None)
    )
    writer.write(Batch.of_columns(small(np.arange(KEYS, dtype=np.int64))))
    writer.flush(False)
    pipe.send(writer.prepare_commit(Epoch(1)))
    pipe.recv()


def _commit(database: Database, delivery: Delivery, committables: list[Any]) -> float:
    committer = sink(database, Workload.SMALL, delivery).create_committer()
    if committer is None:
        return 0.0
    begun = _clock.monotonic()
    outcomes = committer.commit(committables)
    took = _clock.monotonic() - begun
    committer.close()
    assert [outcome.value for outcome in outcomes] == ["committed"], outcomes
    shown = statements(database, f"SELECT v FROM {TABLE} WHERE k = 5")[-1][0][0]
    assert shown == 5, f"the committed value is {shown}"
    return took * 1000


def leftovers_of(database: Database) -> list[str]:
    """Tables of ours that are still there: none may be, at the end of a run."""
    dialect = dialect_of(database.url, password=database.password)
    connection = dialect.open()
    try:
        return dialect.loader.tables(connection, "ps_") + dialect.transactions.prepared(connection, "ps_")
    finally:
        connection.close()
