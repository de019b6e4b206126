"""Jobs that read tables and are disturbed: every row arrives, and arrives once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import read_text, text_file_sink
from local_jobs import NO_TIME, environment, finish, number_stream, until, wait_for_snapshots

from penstock.datastream.connectors.database import DatabaseSource
from penstock.testing.local import LocalLauncher, local_cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "connectors"))

from database_tables import Database, connect  # noqa: E402

ROWS = 600


@pytest.fixture(params=("mysql", "postgresql"))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    fixture = "mariadb_server" if request.param == "mysql" else "postgres_server"
    found = connect(request.param, request.getfixturevalue(fixture))
    yield found
    found.connection.close()


@pytest.fixture
def table(database: Database) -> Iterator[str]:
    with database.table("id INT PRIMARY KEY, country VARCHAR(2), amount DECIMAL(8, 2)") as name:
        yield name


def insert(database: Database, table: str, first: int, last: int) -> None:
    rows = [(i, ("de", "fr", "it")[i % 3], Decimal(i) / 4) for i in range(first, last)]
    database.run(f"INSERT INTO {table} VALUES (%s, %s, %s)", rows)


def lines(last: int) -> list[str]:
    return sorted(f"{i} {('de', 'fr', 'it')[i % 3]} {Decimal(i) / 4:.2f}" for i in range(last))


def slowly(row: Any) -> str:
    time.sleep(0.001)
    return f"{row.id} {row.country} {row.amount}"


def start(source: DatabaseSource, tmp_path: Path) -> Any:
    """The job does not end before a file ``gate`` is there, however fast it reads."""
    env = environment(tmp_path / "chk")
    env.set_parallelism(2)
    rows = env.from_source(source, NO_TIME, "orders")
    rows.key_by("country").map(slowly).sink_to(text_file_sink(tmp_path / "out"))
    number_stream(env, 10, gate=tmp_path / "gate").sink_to(text_file_sink(tmp_path / "numbers"))
    return env.execute_async("reading")


def crash(launcher: LocalLauncher, slot: int) -> None:
    until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
    restarts = launcher.jobs[-1].driver.restarts
    launcher.clusters[-1].kill(slot)
    until(lambda: launcher.jobs[-1].driver.restarts > restarts, "the job restarts")


def test_ranges_survive_crashes(database: Database, table: str, tmp_path: Path) -> None:
    insert(database, table, 0, ROWS)
    source = database.source(table).set_ranges(5).set_page_rows(40).build()
    with local_cluster() as launcher:
        client = start(source, tmp_path)
        for slot in (0, 1):
            wait_for_snapshots(launcher, 2)
            crash(launcher, slot)
        (tmp_path / "gate").touch()
        finish(client)
    assert read_text(tmp_path / "out") == lines(ROWS)


def test_polling_survives_crashes(database: Database, table: str, tmp_path: Path) -> None:
    insert(database, table, 0, 50)
    source = database.source(table).poll("id", every="5 ms", settle="5 ms").set_page_rows(20).build()
    with local_cluster() as launcher:
        client = start(source, tmp_path)
        for slot in (0, 1):
            wait_for_snapshots(launcher, 2)
            insert(database, table, 50 * (slot + 1), 50 * (slot + 2))
            crash(launcher, slot)
        until(lambda: len(read_text(tmp_path / "out")) >= 150, "all rows are there")
        wait_for_snapshots(launcher, 2)
        client.cancel().result()
    assert read_text(tmp_path / "out") == lines(150)
