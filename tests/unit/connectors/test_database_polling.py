"""Growing tables: nothing twice, nothing missed by late commits, patience with lost connections."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from database_tables import Database, connect, splits_of

from penstock.connectors.source import EndOfSplit, Source
from penstock.core.clock import ManualClock
from penstock.core.errors import ConnectorError


@pytest.fixture(params=("mysql", "postgresql"))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    fixture = "mariadb_server" if request.param == "mysql" else "postgres_server"
    found = connect(request.param, request.getfixturevalue(fixture))
    yield found
    found.connection.close()


@pytest.fixture
def table(database: Database) -> Iterator[str]:
    with database.table("id INT PRIMARY KEY, seen INT NOT NULL") as name:
        yield name


class Watcher:
    """Polls on a clock of its own."""

    def __init__(self, source: Source, position: Any = None, from_end: bool = False) -> None:
        self.clock = ManualClock(0)
        [split] = splits_of(source)
        self.reader = source.open_split(source.from_end(split) if from_end else split, position, self.clock)

    def ids(self, max_rows: int = 100) -> list[int]:
        """What is there now."""
        found = []
        while (batch := self.reader.poll(max_rows)) is not None:
            found += [row[0] for row in batch.to_rows()]
        return found

    def after(self, ms: int) -> list[int]:
        """What is there when so much time has passed."""
        self.clock.advance(ms)
        return self.ids()


def test_new_rows_come_in_order_and_once(database: Database, table: str) -> None:
    source = database.source(table).poll("seen", every="1 s", settle="0 s").set_page_rows(2).build()
    assert not source.bounded
    watcher = Watcher(source)
    assert watcher.ids() == []
    database.run(f"INSERT INTO {table} VALUES (5, 1), (3, 2), (4, 2), (1, 3), (2, 1)")
    assert watcher.ids() == [], "it is not time to ask yet"
    assert watcher.reader.next_poll_ms() == 1000
    assert watcher.after(1000) == [2, 5, 3, 4, 1]
    database.run(f"INSERT INTO {table} VALUES (9, 3), (8, 4)")
    assert watcher.after(1000) == [9, 8]
    assert watcher.after(1000) == []
    watcher.reader.close()


def test_positions_replay(database: Database, table: str) -> None:
    database.run(f"INSERT INTO {table} VALUES (5, 1), (3, 2), (4, 2), (1, 3), (2, 1)")
    source = database.source(table).poll("seen", settle="0 s").build()
    watcher = Watcher(source)
    positions = [watcher.reader.position()]
    while watcher.reader.poll(1) is not None:
        positions.append(watcher.reader.position())
    watcher.reader.close()
    assert len(positions) == 6
    for count, position in enumerate(positions):
        again = Watcher(source, position)
        assert again.ids() == [2, 5, 3, 4, 1][count:]
        again.reader.close()


def test_a_late_commit_is_waited_for(database: Database, table: str) -> None:
    other = connect(database.scheme, database.server)
    other.run("BEGIN")
    other.run(f"INSERT INTO {table} VALUES (1, 1)")
    database.run(f"INSERT INTO {table} VALUES (2, 2)")
    hasty = Watcher(database.source(table).poll("seen", every="1 s", settle="0 s").build())
    careful = Watcher(database.source(table).poll("seen", every="1 s", settle="5 s").build())
    assert hasty.ids() == [2]
    assert careful.ids() == []
    assert careful.after(4000) == []
    other.run("COMMIT")
    other.connection.close()
    assert hasty.after(4000) == [], "this is what settling is for"
    assert careful.after(1000) == [1, 2]
    hasty.reader.close()
    careful.reader.close()


def test_a_row_is_not_read_before_its_time_however_often_it_is_asked_for(
    database: Database, table: str
) -> None:
    watcher = Watcher(database.source(table).poll("seen", every="100 ms", settle="1 s").build())
    database.run(f"INSERT INTO {table} VALUES (1, 1)")
    assert watcher.ids() == []
    came = {}
    for turn in range(1, 30):
        if turn == 5:
            database.run(f"INSERT INTO {table} VALUES (2, 2)")
        came.update({found: turn for found in watcher.after(100)})
    assert came == {1: 10, 2: 15}
    watcher.reader.close()


def test_where_to_start(database: Database, table: str) -> None:
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    later = Watcher(database.source(table).poll("seen", settle="0 s", start_after=1).build())
    assert later.ids() == [2, 3]
    later.reader.close()
    at_end = Watcher(database.source(table).poll("seen", settle="0 s").build(), from_end=True)
    assert at_end.ids() == []
    database.run(f"INSERT INTO {table} VALUES (4, 4)")
    assert at_end.after(1000) == [4]
    at_end.reader.close()


def cut(database: Database) -> None:
    """End all other connections to the server that read a test's table."""
    if database.scheme == "mysql":
        for number, *_ in database.run(
            "SELECT id FROM information_schema.processlist "
            "WHERE id > CONNECTION_ID() AND user = SUBSTRING_INDEX(USER(), '@', 1)"
        ):
            database.run(f"KILL CONNECTION {number}")
    else:
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND application_name = 'penstock'"
        )


def test_a_lost_connection_is_opened_again(database: Database, table: str) -> None:
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    watcher = Watcher(database.source(table).poll("seen", settle="0 s").set_page_rows(2).build())
    assert [row[0] for row in watcher.reader.poll(2).to_rows()] == [1, 2]
    cut(database)
    assert watcher.reader.poll(2) is None
    assert watcher.after(60_000) == [3, 4]
    watcher.reader.close()


def test_a_range_goes_on_behind_its_position_after_a_lost_connection(database: Database, table: str) -> None:
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    source = database.source(table).set_page_rows(2).build()
    watcher = Watcher(source)
    assert [row[0] for row in watcher.reader.poll(2).to_rows()] == [1, 2]
    cut(database)
    assert watcher.reader.poll(2) is None
    assert watcher.reader.position() == (2,)
    watcher.clock.advance(1000)
    assert [row[0] for row in watcher.reader.poll(2).to_rows()] == [3, 4]
    with pytest.raises(EndOfSplit):
        watcher.reader.poll(2)
    watcher.reader.close()


def test_patience_ends(database: Database, table: str) -> None:
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    watcher = Watcher(database.source(table).poll("seen", settle="0 s").build())
    assert watcher.ids() == [1, 2]
    database.run(f"ALTER TABLE {table} RENAME TO {table}_gone")
    try:
        watcher.clock.advance(1000)
        with pytest.raises(ConnectorError, match="cannot be read"):
            watcher.reader.poll(1)
    finally:
        database.run(f"ALTER TABLE {table}_gone RENAME TO {table}")
        watcher.reader.close()


def test_a_start_with_a_zone_is_that_moment(database: Database) -> None:
    noon = dt.datetime(2024, 2, 28, 12, tzinfo=dt.UTC)
    declared = "DATETIME" if database.scheme == "mysql" else "TIMESTAMPTZ"
    with database.table(f"id INT PRIMARY KEY, at_ {declared} NOT NULL") as table:
        shown = [(i, (noon + dt.timedelta(hours=i)).strftime("%Y-%m-%d %H:%M:%S")) for i in range(4)]
        zone = "" if database.scheme == "mysql" else "+00"
        database.run(f"INSERT INTO {table} VALUES (%s, %s)", [(i, text + zone) for i, text in shown])
        start = (noon + dt.timedelta(hours=1)).astimezone(dt.timezone(dt.timedelta(hours=-7)))
        watcher = Watcher(database.source(table).poll("at_", settle="0 s", start_after=start).build())
        assert watcher.ids() == [2, 3]
        watcher.reader.close()


def test_numbers_that_begin_anew_are_told_once(
    database: Database, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can tell it from newest rows that were deleted, so it is no error."""
    database.run(f"INSERT INTO {table} VALUES (1, 7), (2, 8)")
    watcher = Watcher(database.source(table).poll("seen", every="1 s", settle="0 s").build())
    assert watcher.ids() == [1, 2] and "begin anew" not in caplog.text
    database.run(f"DELETE FROM {table}")
    database.run(f"INSERT INTO {table} VALUES (3, 1)")
    assert watcher.after(1000) == [] and watcher.after(1000) == []
    assert caplog.text.count("is 1, and it was read up to 8") == 1
    watcher.reader.close()
