"""Upserts and plain statements on real servers: safe to repeat, never back in time if asked, retried."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal

import pyarrow as pa
import pytest
from database_kit import MARIADB, NOW, POSTGRESQL, barrier, commit, database, writer_of

from penstock.common import Types
from penstock.connectors.database.sink import Delivery
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row, RowKind
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from tests.patience import PATIENCE_S


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run("CREATE TABLE sink_t (k INT, h INT, v VARCHAR(10) NOT NULL, n BIGINT, PRIMARY KEY (k, h))")
        yield db


def make(db, delivery=Delivery.UPSERT, **settings):
    table = settings.pop("table", "sink_t")
    builder = db.builder(table).set_columns("k", "h", "v", "n").set_key_columns("k", "h")
    builder.set_delivery(delivery)
    for name, value in settings.items():
        getattr(builder, name)(*value if isinstance(value, tuple) else (value,))
    sink = builder.build()
    sink.check()
    return sink


def content(db):
    return sorted(db.run("SELECT k, h, v, n FROM sink_t"))


def test_writing_again_changes_nothing(db):
    sink = make(db)
    batch = Batch.of_rows([(1, 1, "a", 1), (1, 2, "b", 2), (1, 1, "c", 3)])
    for generation in (1, 2):
        writer = writer_of(sink, generation=generation)
        writer.write(batch)
        assert barrier(writer) == []
        writer.close()
        assert content(db) == [(1, 1, "c", 3), (1, 2, "b", 2)]


def test_rows_are_sent_by_size_by_time_and_at_the_barrier(db):
    clock = ManualClock(NOW)
    writer = writer_of(make(db, set_batch=(3, 500)), clock=clock)
    writer.write(Batch.of_rows([(1, 1, "a", 1)]))
    assert writer.next_flush_ms() == NOW + 500 and content(db) == []
    writer.on_time(NOW + 500)
    assert len(content(db)) == 1 and writer.next_flush_ms() is None
    writer.write(Batch.of_rows([(2, 1, "a", 1), (3, 1, "a", 1), (4, 1, "a", 1)]))
    assert len(content(db)) == 4 and writer.next_flush_ms() is None
    writer.write(Batch.of_rows([(5, 1, "a", 1)]))
    writer.flush(False)
    assert len(content(db)) == 5


@pytest.mark.parametrize("delivery", list(Delivery))
def test_deletions(db, delivery):
    sink = make(db, delivery)
    writer = writer_of(sink)

    def round_(epoch, *rows):
        writer.write(Batch.of_rows(list(rows)))
        committables = barrier(writer, epoch)
        if committables:
            commit(sink, committables)

    round_(1, *(Row(key, 0, "a", 1) for key in range(5)))
    gone = RowKind.DELETE
    round_(2, Row.of_kind(gone, 1, 0, None, None), Row.of_kind(gone, 2, 0, "a", 1), Row(2, 0, "b", 2))
    round_(3, Row(3, 0, "c", 3), Row.of_kind(gone, 3, 0, "c", 3), Row.of_kind(gone, 9, 0, "never there", 0))
    assert content(db) == [(0, 0, "a", 1), (2, 0, "b", 2), (4, 0, "a", 1)]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_only_if_newer_keeps_what_is_newer(db, delivery):
    table = f"{db.server.database if db.is_mysql else 'public'}.sink_t"
    sink = make(db, delivery, table=table, only_if_newer="n", delete_when=lambda row: row[2] == "gone")
    writer = writer_of(sink)

    def round_(epoch, *rows):
        writer.write(Batch.of_rows(list(rows)))
        committables = barrier(writer, epoch)
        if committables:
            commit(sink, committables)

    round_(1, (1, 0, "a", 10), (2, 0, "a", 10), (3, 0, "a", None))
    round_(2, (1, 0, "old", 9), (2, 0, "same", 10), (3, 0, "b", 1))
    assert content(db) == [(1, 0, "a", 10), (2, 0, "same", 10), (3, 0, "b", 1)]
    round_(3, (1, 0, "gone", 9), (2, 0, "gone", 11), (3, 0, "new", 5), (3, 0, "old", 4))
    assert content(db) == [(1, 0, "a", 10), (3, 0, "new", 5)]


def test_lost_connections_are_replaced(db):
    writer = writer_of(make(db))
    for number in range(3):
        writer.write(Batch.of_rows([(number, 0, "a", 1)]))
        writer.flush(False)
        assert db.kill_sessions() >= 1
    assert len(content(db)) == 3


def test_a_server_that_stays_away_fails_the_attempt_in_a_sentence(db):
    sink = make(db, set_max_retries=1)
    writer = writer_of(sink)
    writer._link.dialect.address = type(db.dialect.address)(
        db.dialect.address.kind, "127.0.0.1", 1, "d", "u", db.server.password
    )
    writer.write(Batch.of_rows([(1, 0, "a", 1)]))
    with pytest.raises(ConnectorError, match="failed after 2 tries.*back to its last checkpoint") as raised:
        writer.flush(False)
    assert db.server.password not in str(raised.value)


def test_a_fault_that_does_not_pass_is_said_at_once(db):
    writer = writer_of(make(db))
    db.run("DROP TABLE sink_t")
    writer.write(Batch.of_rows([(1, 0, "a", 1)]))
    with pytest.raises(ConnectorError, match=f"failed: .* at {db.url} says: .*sink_t.*exist"):
        writer.flush(False)


def test_two_writers_of_the_same_rows_do_not_deadlock(db):
    sink = make(db)
    keys = list(range(400))
    errors = []

    def write(subtask):
        writer = writer_of(sink, subtask)
        try:
            for round_ in range(5):
                order = keys if (subtask + round_) % 2 else keys[::-1]
                writer.write(Batch.of_rows([(key, 0, "a", subtask) for key in order]))
                writer.flush(False)
        except Exception as e:
            errors.append(e)
        writer.close()

    threads = [threading.Thread(target=write, args=(subtask,)) for subtask in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(content(db)) == 400


def test_a_deadlock_is_tried_again(db):
    sink = make(db)
    db.run("INSERT INTO sink_t VALUES (1, 0, 'a', 1), (2, 0, 'a', 1)")
    writer = writer_of(sink)
    other = db.connect()
    writer.write(Batch.of_rows([(1, 0, "w", 2), (2, 0, "w", 2)]))
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE sink_t SET v = 'other' WHERE k = 2")
        thread = threading.Thread(target=writer.flush, args=(False,))
        thread.start()
        try:
            for _ in range(50):  # until the writer holds k = 1 and waits for k = 2
                cursor.execute("UPDATE sink_t SET n = n + 1 WHERE k = 1")
        except Exception as e:
            assert db.dialect.fault(e).passing
        cursor.execute("ROLLBACK")
    other.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [row[2] for row in content(db)] == ["w", "w"]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_values_of_all_types_arrive(db, delivery):
    types = "BLOB, m DATETIME(6)" if db.is_mysql else "BYTEA, m TIMESTAMP"
    db.run(
        f"CREATE TABLE sink_all (i BIGINT PRIMARY KEY, f DOUBLE PRECISION, t VARCHAR(99), y BOOLEAN, "
        f"b {types}, d DATE, c DECIMAL(20, 4), j JSON)"
    )
    sink = (
        db.builder("sink_all")
        .set_columns(*"iftybmdc", "j")
        .set_key_columns("i")
        .set_delivery(delivery)
        .build()
    )
    sink.check()
    text = "tab\t, line\n, quote ' \" `, back\\slash \\N, percent %s %, ümläut 😀"
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001
    full = (
        2**62,
        1e-300,
        text,
        True,
        bytes(range(256)),
        moment,
        day,
        Decimal("12345678901234.5678"),
        {"a": [1]},
    )
    writer = writer_of(sink)
    writer.write(
        Batch.of_rows([full, (2, *[None] * 8), (3, -0.5, "", False, b"", moment, day, Decimal(0), {})])
    )
    columns = pa.record_batch(
        {name: [value] for name, value in zip("ifty", (4, 2.5, "x", True), strict=True)}
    )
    rest = {"b": [b"\0"], "m": [moment], "d": [day], "c": [Decimal("1.5")], "j": ['{"k": 1}']}
    for name, values in rest.items():
        columns = columns.append_column(name, pa.array(values))
    writer.write(Batch.of_columns(columns))
    committables = barrier(writer)
    if committables:
        commit(sink, committables)
    found = {row[0]: row for row in db.run("SELECT i, f, t, y, b, m, d, c FROM sink_all")}
    assert found[2**62] == full[:8]
    assert found[2] == (2, *[None] * 7)
    assert found[3] == (3, -0.5, "", False, b"", moment, day, Decimal(0))
    assert found[4] == (4, 2.5, "x", True, b"\0", moment, day, Decimal("1.5"))
    where = "JSON_VALUE(j, '$.a[0]')" if db.is_mysql else "j -> 'a' ->> 0"
    assert [str(value) for (value,) in db.run(f"SELECT {where} FROM sink_all WHERE i = {2**62}")] == ["1"]


# --- PyFlink's JdbcSink ---------------------------------------------------------------------------


def jdbc(db, sql, types, **execution):
    server = db.server
    scheme = "mysql" if db.is_mysql else "postgresql"
    connection = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(f"jdbc:{scheme}://{server.host}:{server.port}/{server.database}")
        .with_driver_name("org.example.Driver")
        .with_user_name(server.user)
        .with_password(server.password)
        .build()
    )
    assert server.password not in repr(connection)
    options = JdbcExecutionOptions.builder()
    for name, value in execution.items():
        getattr(options, f"with_{name}")(value)
    return JdbcSink.sink(sql, types, connection, options.build())


def test_jdbc_sink_runs_its_statement_in_order(db):
    upsert = (
        "ON DUPLICATE KEY UPDATE v = VALUES(v)"
        if db.is_mysql
        else "ON CONFLICT (k, h) DO UPDATE SET v = EXCLUDED.v"
    )
    types = Types.ROW([Types.INT(), Types.INT(), Types.STRING()])
    sink = jdbc(db, f"INSERT INTO sink_t (k, h, v) VALUES (?, ?, ?) {upsert}", types, batch_size=3).sink
    sink.check()
    writer = writer_of(sink)
    writer.write(Batch.of_rows([Row(1, 0, "a"), (2, 0, "b")]))
    assert content(db) == [] and writer.next_flush_ms() is None
    writer.write(Batch.of_rows([Row(x=1, y=0, z="c")]))
    assert [row[:3] for row in content(db)] == [(1, 0, "c"), (2, 0, "b")]
    writer.write(Batch.of_rows([Row(3, 0, "100 %s")]))
    writer.flush(True)
    assert content(db)[-1][2] == "100 %s"
    writer.write(Batch.of_rows([Row(4, 0, "a"), Row(None, 0, "b")]))
    with pytest.raises(ConnectorError, match="refuses a row.*f0=None, f1=0, f2='b'"):
        writer.flush(True)


def test_jdbc_options_have_the_defaults_of_pyflink(db):
    options = JdbcExecutionOptions.defaults()
    assert (options.get_batch_size(), options.get_batch_interval_ms(), options.get_max_retries()) == (
        5000,
        0,
        3,
    )
    with pytest.raises(ConfigError, match="has 2 parameters, but records have 1 fields"):
        jdbc(db, "INSERT INTO t VALUES (?, ?)", Types.ROW([Types.INT()]))
    with pytest.raises(ConfigError, match="needs the type of a row"):
        jdbc(db, "INSERT INTO t VALUES (?)", Types.INT())
