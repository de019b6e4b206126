"""Rows that cannot be prepared because an earlier epoch holds them, and writers that come back late."""

from __future__ import annotations

import pickle

import pytest
from database_kit import MARIADB, POSTGRESQL, barrier, commit, database, only, until, writer_of

from penstock.connectors.database import mysql, postgresql
from penstock.connectors.database.dialect import LOCK_WAIT_S
from penstock.connectors.database.sink import Delivery
from penstock.connectors.database.two_phase import CarriedRows, PreparedRows
from penstock.connectors.sink import CommitOutcome
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run("CREATE TABLE sink_t (k INT NOT NULL PRIMARY KEY, v VARCHAR(10))")
        yield db


def make(db, **settings):
    builder = db.builder("sink_t").set_columns("k", "v").set_key_columns("k")
    builder.set_delivery(Delivery.TWO_PHASE)
    for name, value in settings.items():
        getattr(builder, name)(value)
    sink = builder.build()
    sink.check()
    return sink


def rows(*keys, v="x"):
    return Batch.of_rows([(key, v) for key in keys])


def content(db):
    return sorted(db.run("SELECT k, v FROM sink_t"))


def shipped(committables):
    return pickle.loads(pickle.dumps(committables))


def test_rows_that_an_earlier_epoch_holds_are_written_by_the_commit(db):
    """A savepoint, or a checkpoint that was given up, is committed together with the next checkpoint."""
    sink = make(db)
    writer = writer_of(sink)
    writer.write(rows(1, 2, v="old"))
    prepared = barrier(writer, 1)
    writer.write(rows(1, 3, v="new"))
    prepared += barrier(writer, 2)
    writer.write(rows(3, v="newest"))  # not in the first transaction, but in what waits behind it
    prepared += barrier(writer, 3)
    writer.write(rows(9))
    prepared += barrier(writer, 4)
    assert [type(item) for item in prepared] == [PreparedRows, CarriedRows, CarriedRows, PreparedRows]
    assert content(db) == []
    assert commit(sink, shipped(prepared)) == ["COMMITTED"] * 4
    assert content(db) == [(1, "new"), (2, "old"), (3, "newest"), (9, "x")]
    assert commit(sink, shipped(prepared)) == ["ALREADY_COMMITTED"] * 4
    writer.write(rows(1, v="last"))
    last = barrier(writer, 5)
    assert [type(item) for item in last] == [PreparedRows]
    assert commit(sink, last) == ["COMMITTED"]
    assert content(db) == [(1, "last"), (2, "old"), (3, "newest"), (9, "x")]


def test_the_last_barrier_of_a_job_leaves_nothing_behind(db):
    """The engine says flush(True), then comes the last barrier with a flush(False) of its own."""
    sink = make(db)
    writer = writer_of(sink)
    writer.write(rows(1, v="old"))
    prepared = barrier(writer, 1)
    writer.write(rows(1, v="last"))
    writer.flush(True)
    prepared += barrier(writer, 2)
    writer.close()
    commit(sink, shipped(prepared))
    assert content(db) == [(1, "last")] and db.prepared() == []


def test_a_restored_commit_repeats_nothing_over_newer_rows(db):
    sink = make(db)
    writer = writer_of(sink)
    writer.write(rows(1, v="old"))
    restored = barrier(writer, 1)
    writer.write(rows(1, v="carried"))
    restored += barrier(writer, 2)
    writer.close()
    commit(sink, restored)
    second = writer_of(sink, generation=2)
    second.write(rows(1, v="newer"))
    commit(sink, barrier(second, 3))
    assert commit(sink, restored) == ["ALREADY_COMMITTED"] * 2  # a driver that comes back late
    assert content(db) == [(1, "newer")]


def test_nothing_streams_while_an_earlier_epoch_holds_rows(db):
    sink = make(db, set_buffer_rows=2)
    writer = writer_of(sink)
    writer.write(rows(1))
    prepared = barrier(writer, 1)
    for key in range(6):
        writer.write(rows(key, v="more"))
    prepared += barrier(writer, 2)
    assert [type(item) for item in prepared] == [PreparedRows, CarriedRows]
    assert commit(sink, prepared) == ["COMMITTED"] * 2
    assert content(db) == [(key, "more") for key in range(6)]


@pytest.fixture
def short_waits(monkeypatch):
    monkeypatch.setattr(mysql, "_SESSION", mysql._SESSION.replace(f"= {LOCK_WAIT_S}", "= 1"))
    monkeypatch.setattr(postgresql, "LOCK_WAIT_S", 1)


@pytest.mark.usefixtures("short_waits")
def test_carried_rows_that_wait_for_another_writer_let_it_go_first(db):
    """Two subtasks with the same row, which only a stream that is not partitioned by key has."""
    sink = make(db)
    first, second = writer_of(sink), writer_of(sink, subtask=1)
    first.write(rows(1))
    prepared = barrier(first, 1)
    first.write(rows(1, 2, v="carried"))
    prepared += barrier(first, 2)
    second.write(rows(2, v="other"))
    prepared += barrier(second, 2)
    committer = sink.create_committer()
    outcomes = committer.commit(prepared)
    assert outcomes == [CommitOutcome.COMMITTED, CommitOutcome.RETRY, CommitOutcome.COMMITTED]
    assert committer.commit(prepared[1:2]) == [CommitOutcome.COMMITTED]
    committer.close()
    assert content(db) == [(1, "carried"), (2, "carried")]


@pytest.mark.usefixtures("short_waits")
def test_carried_rows_never_wait_for_a_transaction_that_waits_for_them(request):
    """To Python 'b' and 'B' are two keys, to this collation they are one row."""
    with only(request, MARIADB) as db:
        db.run("CREATE TABLE sink_t (k VARCHAR(5) COLLATE utf8mb4_general_ci PRIMARY KEY, v VARCHAR(10))")
        sink = make(db)
        writer = writer_of(sink)
        writer.write(rows("a"))
        first = barrier(writer, 1)
        writer.write(rows("a", "b", v="carried"))
        carried = barrier(writer, 2)
        commit(sink, first)
        writer.write(rows("B", v="other"))
        later = barrier(writer, 3)
        writer.write(rows("b", v="last"))
        later += barrier(writer, 4)
        assert [type(item) for item in carried + later] == [CarriedRows, PreparedRows, CarriedRows]
        commit(sink, carried + later)
        assert content(db) == [("B", "last"), ("a", "carried")]


def test_a_carried_row_that_the_table_refuses_names_itself(db):
    sink = make(db)
    writer = writer_of(sink)
    writer.write(rows(1))
    prepared = barrier(writer, 1)
    writer.write(Batch.of_rows([(1, "ok"), (2, "much too long for it")]))
    prepared += barrier(writer, 2)
    with pytest.raises(ConnectorError, match="refuses a row.*k=2, v='much too long for it'"):
        commit(sink, prepared)
    assert content(db) == [(1, "x")]


def test_what_a_writer_of_an_older_attempt_prepares_late_is_cleared_away(db):
    sink = make(db)
    late, now = writer_of(sink, subtask=1), writer_of(sink, generation=2)
    late.write(rows(1, v="late"))
    barrier(late)
    late.close()
    assert len(db.prepared()) == 1
    now.write(rows(1, v="now"))  # the late one may hold its row
    commit(sink, barrier(now))
    assert content(db) == [(1, "now")] and db.prepared() == []


def test_a_transaction_whose_name_was_lost_on_the_way_is_cleared_away_later(db, monkeypatch):
    """Its answer did not arrive, and the server notices only later that its connection is gone."""
    sink = make(db)
    writer = writer_of(sink, subtask=1)
    kind, kept = type(db.dialect.transactions), []
    prepare, listed = kind.prepare, kind.prepared

    def prepare_and_lose(self, connection, name):
        prepare(self, connection, name)
        if not kept:
            kept.append(name)
            connection.close()
            raise ConnectionError("the answer did not arrive")

    monkeypatch.setattr(kind, "prepare", prepare_and_lose)
    monkeypatch.setattr(kind, "prepared", lambda self, connection, prefix: [])
    monkeypatch.setattr(type(db.dialect), "apply", lambda self, connection, target, rows, gone: None)
    writer.write(rows(1))
    prepared = barrier(writer)
    monkeypatch.setattr(kind, "prepared", listed)
    until(lambda: (barrier(writer), kept[0] not in db.prepared())[1], "it is gone")
    assert commit(sink, prepared) == ["COMMITTED"]
