"""Values that text would change on their way into a table, and loads whose answer was lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from database_kit import MARIADB, POSTGRESQL, barrier, commit, database, writer_of

from penstock.connectors.database.sink import Delivery
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.row import Row


@pytest.fixture
def mariadb(request):
    yield from database(request, MARIADB)


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    yield from database(request, request.param)


def written(db, table, columns, rows, delivery):
    builder = db.builder(table).set_columns(*columns).set_key_columns(columns[0]).set_delivery(delivery)
    sink = builder.build()
    sink.check()
    writer = writer_of(sink)
    writer.write(Batch.of_rows(rows))
    committables = barrier(writer)
    if committables:
        commit(sink, committables)
    writer.close()


@pytest.mark.parametrize("delivery", list(Delivery))
def test_bits_spans_and_bytes_of_mariadb(mariadb, delivery):
    mariadb.run("CREATE TABLE sink_odd (k INT PRIMARY KEY, b BIT(12), o BIT(1), s TIME(6), r BLOB, j JSON)")
    day, short = dt.timedelta(hours=25, microseconds=5), dt.timedelta(seconds=-61)
    rows = [
        (1, 5, True, day, b"\x00\xab", Row(1, "x")),
        (2, 4095, False, short, "abcd", [2]),
        (3, *[None] * 5),
    ]
    written(mariadb, "sink_odd", list("kbosrj"), rows, delivery)
    found = mariadb.run("SELECT k, b + 0, o + 0, s, r, j FROM sink_odd ORDER BY k")
    assert found == [
        (1, 5, 1, day, b"\x00\xab", '[1, "x"]'),
        (2, 4095, 0, short, b"abcd", "[2]"),
        (3, *[None] * 5),
    ]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_text_that_would_be_cut_off_behind_many_rounded_numbers(mariadb, delivery):
    mariadb.run("CREATE TABLE sink_round (k INT PRIMARY KEY, d DECIMAL(10, 2), t VARCHAR(3))")
    rows = [(k, Decimal("1.239"), "abc") for k in range(200)]
    written(mariadb, "sink_round", ["k", "d", "t"], rows, delivery)
    assert mariadb.run("SELECT DISTINCT d, t FROM sink_round") == [(Decimal("1.24"), "abc")]
    with pytest.raises(ConnectorError, match=r"too long.*The row: k=200.*t='abcd'"):
        written(mariadb, "sink_round", ["k", "d", "t"], [*rows, (200, Decimal(1), "abcd")], delivery)
    assert mariadb.run("SELECT COUNT(*) FROM sink_round WHERE k = 200") == [(0,)]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_row_longer_than_the_server_takes_is_no_lost_connection(mariadb, delivery):
    mariadb.run("CREATE TABLE sink_long (k INT PRIMARY KEY, t LONGTEXT)")
    [(limit,)] = mariadb.run("SELECT @@max_allowed_packet")
    rows = [(1, "a"), (2, "ü" * (limit // 2)), (3, "b")]
    if delivery is Delivery.BULK_LOAD:
        written(mariadb, "sink_long", ["k", "t"], rows, delivery)
        assert mariadb.run("SELECT k, CHAR_LENGTH(t) FROM sink_long ORDER BY k")[1] == (2, limit // 2)
        return
    with pytest.raises(ConnectorError, match=r"max_allowed_packet.*BULK_LOAD.*The row: k=2, t='ü"):
        written(mariadb, "sink_long", ["k", "t"], rows, delivery)


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_server_whose_strings_have_no_escapes(mariadb, delivery):
    mariadb.run("CREATE TABLE sink_text (k INT PRIMARY KEY, t VARCHAR(50), b BLOB)")
    [(before,)] = mariadb.run("SELECT @@GLOBAL.sql_mode")
    text = "a\\b'c\\'d\\N\t\n\\"
    mariadb.run(f"SET GLOBAL sql_mode = '{before},NO_BACKSLASH_ESCAPES'")
    try:
        written(mariadb, "sink_text", ["k", "t", "b"], [(1, text, b"\\'\0"), (2, None, b"")], delivery)
    finally:
        mariadb.run(f"SET GLOBAL sql_mode = '{before}'")
    assert sorted(mariadb.run("SELECT k, t, b FROM sink_text")) == [(1, text, b"\\'\0"), (2, None, b"")]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_moments_are_in_utc_and_numbers_are_rounded_by_the_database(db, delivery):
    kinds = "a DATETIME(6), b TIMESTAMP(6) NULL" if db.is_mysql else "a TIMESTAMP, b TIMESTAMPTZ"
    db.run(f"CREATE TABLE sink_time (k INT PRIMARY KEY, {kinds}, c DECIMAL(9, 2))")
    moment = dt.datetime(2024, 7, 1, 12, 30, 0, 5, dt.timezone(dt.timedelta(hours=5, minutes=30)))
    written(db, "sink_time", list("kabc"), [(1, moment, moment, Decimal("1.239"))], delivery)
    [(a, b, c)] = db.run("SELECT a, b, c FROM sink_time")
    utc = dt.datetime(2024, 7, 1, 7, 0, 0, 5, dt.UTC)
    assert (a, b) == (utc.replace(tzinfo=None), utc.replace(tzinfo=None) if db.is_mysql else utc)
    assert c == Decimal("1.24")


def test_a_load_whose_answer_was_lost_counts_once(db, monkeypatch):
    db.run("CREATE TABLE sink_lost (n INT)")
    sink = db.builder("sink_lost").set_columns("n").bulk_load().set_buffer_rows(2).build()
    sink.check()
    writer = writer_of(sink)
    kind, lost = type(db.dialect.loader), []
    load = kind.load

    def load_and_lose(self, connection, staging, target, first, rows, gone):
        load(self, connection, staging, target, first, rows, gone)
        if first == 2 and not lost:
            lost.append(staging)
            connection.close()
            raise ConnectionError("the answer did not arrive")

    monkeypatch.setattr(kind, "load", load_and_lose)
    for number in range(3):
        writer.write(Batch.of_rows([(number,), (number + 10,)]))
    committables = barrier(writer)
    assert lost == [committables[0].name]
    if not db.is_mysql:  # there the key of the staging table would refuse it
        db.run(f"INSERT INTO {lost[0]} SELECT * FROM {lost[0]} WHERE penstock_seq = 3")
    commit(sink, committables)
    assert sorted(db.run("SELECT n FROM sink_lost")) == [(0,), (1,), (2,), (10,), (11,), (12,)]
