"""Names with dots and quotes in them, what statements and addresses may hold, and a long ledger."""

from __future__ import annotations

import pytest
from database_kit import EXACT, MARIADB, POSTGRESQL, barrier, commit, database, only, writer_of

from penstock.common import Types
from penstock.connectors.database import mysql, postgresql
from penstock.connectors.database.address import parse_url, tls_settings
from penstock.connectors.database.connection import dialect_of
from penstock.connectors.database.sink import Delivery
from penstock.connectors.database.source import DatabaseSource
from penstock.core.batch import Batch
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink

NAMES = ("order", "a.b", 'it\'s "x"`', "{}")


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    yield from database(request, request.param)


def odd_table(db):
    quoted = ", ".join(f"{db.dialect.quote(name)} INT NOT NULL" for name in NAMES)
    key = ", ".join(map(db.dialect.quote, NAMES[:2]))
    db.run(f"CREATE TABLE {db.dialect.quote('sink_select')} ({quoted}, PRIMARY KEY ({key}))")
    return f"{'penstock' if db.is_mysql else 'public'}.sink_select"


@pytest.mark.parametrize("delivery", list(Delivery))
def test_columns_may_have_any_names(db, delivery):
    table = odd_table(db)
    builder = db.builder(table).set_columns(*NAMES).set_key_columns(*NAMES[:2]).set_delivery(delivery)
    sink = builder.only_if_newer(NAMES[2]).delete_when(lambda row: row[3] < 0).build()
    sink.check()
    writer = writer_of(sink)
    for epoch, rows in enumerate(([(1, 1, 5, 0), (1, 2, 5, 0)], [(1, 1, 4, 1), (1, 2, 6, -1), (2, 1, 1, 1)])):
        writer.write(Batch.of_rows(rows))
        committables = barrier(writer, epoch + 1)
        if committables:
            commit(sink, committables)
    writer.close()
    assert db.run("SELECT * FROM sink_select ORDER BY 1, 2") == [(1, 1, 5, 0), (2, 1, 1, 1)]


def test_columns_of_any_name_are_read_too(db):
    table = odd_table(db)
    db.run("INSERT INTO sink_select VALUES (1, 2, 3, 4), (5, 6, 7, 8)")
    builder = DatabaseSource.builder().set_url(db.url).set_password(db.server.password).set_table(table)
    source = builder.set_partition_column("a.b").set_page_rows(1).build()
    [split] = source.splits(1)
    reader = source.open_split(split, None, SystemClock())
    rows = [row.as_dict() for _ in range(2) for row in reader.poll(10).to_rows()]
    reader.close()
    assert rows == [dict(zip(NAMES, values, strict=True)) for values in ((1, 2, 3, 4), (5, 6, 7, 8))]


def test_a_jdbc_statement_may_have_parameters_behind_its_values(db):
    db.run("CREATE TABLE sink_s (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO sink_s VALUES (1, 'x')")
    sql = "INSERT INTO sink_s (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = sink_s.v || '%s' || ?"
    if db.is_mysql:
        sql = "INSERT INTO sink_s (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = CONCAT(v, '%s', ?)"
    at = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(db.url)
    at.with_password(db.server.password)
    sink = JdbcSink.sink(sql, Types.ROW([Types.INT(), Types.STRING(), Types.STRING()]), at.build()).sink
    writer = writer_of(sink)
    writer.write(Batch.of_rows([(1, "n", "m"), (2, "n", "m"), (2, "n", "o")]))
    writer.flush(True)
    writer.close()
    assert db.run("SELECT * FROM sink_s ORDER BY id") == [(1, "x%sm"), (2, "n%so")]


def test_options_in_a_postgresql_url_do_not_change_how_times_are_written(request):
    with only(request, POSTGRESQL) as db:
        url = f"{db.url}?options=-c%20search_path%3Dpg_catalog%20-c%20timezone%3DAsia/Tokyo"
        connection = dialect_of(url, password=db.server.password).connect()
        asked = ("timezone", "lock_timeout", "search_path")
        found = [connection.execute(f"SHOW {name}").fetchone()[0] for name in asked]
        connection.close()
        assert found == ["UTC", "10s", "pg_catalog"]


def test_a_wish_for_tls_that_nobody_understands_is_refused():
    wished = parse_url("mysql://u@h/d?ssl_ca=/ca.pem&ssl_verify_cert=true&ssl_check_hostname=False&charset=x")
    assert tls_settings(wished.options) == {"ca": "/ca.pem", "verify_mode": "true", "check_hostname": False}
    assert tls_settings(parse_url("mysql://u@h/d").options) == {}
    for name in ("ssl_verify_identity", "ssl_disabled", "ssl_mode"):
        with pytest.raises(ConfigError, match="ssl_verify_cert"):
            dialect_of(f"mysql://u@h/d?{name}=true")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://u@h/d?autocommit=0", "'autocommit' cannot be set in a MySQL URL.*connect_timeout"),
        ("mysql://u@h/d?charset=latin1", "'charset' cannot be set in a MySQL URL"),
        ("mysql://u@h/d?typo=1", "'typo' cannot be set in a MySQL URL"),
        ("mysql://u@h/d?connect_timeout=soon", "'connect_timeout' of a MySQL URL is a whole number"),
        ("postgresql://u@h/d?host=other", "'host' says again what is in the PostgreSQL URL"),
        ("postgresql://u@h/d?autocommit=0", "'autocommit' cannot be set in a PostgreSQL URL"),
        ("postgresql://u@h/d?prepare_threshold=3", "'prepare_threshold' cannot be set"),
    ],
)
def test_options_that_are_ours_or_unknown_are_refused(url, sentence):
    with pytest.raises(ConfigError, match=sentence):
        dialect_of(url)


def test_a_time_limit_in_the_url_wins_over_ours(db):
    options = "connect_timeout=7"
    if db.is_mysql:
        options += "&read_timeout=8&program_name=orders&sql_mode=ANSI"
    connection = dialect_of(f"{db.url}?{options}", password=db.server.password).connect()
    if db.is_mysql:
        assert (connection.connect_timeout, connection._read_timeout) == (7, 8)
        assert connection._write_timeout == 600
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@sql_mode")
            assert "ANSI" in (mode := cursor.fetchone()[0]) and "STRICT_ALL_TABLES" in mode
    else:
        assert connection.info.get_parameters()["connect_timeout"] == "7"
    connection.close()


def test_somebody_who_reads_a_staging_table_does_not_hold_back_the_commit(db, monkeypatch):
    monkeypatch.setattr(mysql, "_SESSION", mysql._SESSION.replace("timeout = 10", "timeout = 1"))
    monkeypatch.setattr(postgresql, "LOCK_WAIT_S", 1)
    db.run("CREATE TABLE sink_b (id INT PRIMARY KEY)")
    sink = db.builder("sink_b").set_columns("id").set_key_columns("id").bulk_load().build()
    sink.check()
    writer = writer_of(sink)
    writer.write(Batch.of_rows([(1,)]))
    staged = barrier(writer)
    writer.close()
    backup = db.connect()
    with backup.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT * FROM {staged[0].name}")
    assert [commit(sink, staged) for _ in range(2)] == [["COMMITTED"], ["ALREADY_COMMITTED"]]
    assert db.run("SELECT * FROM sink_b") == [(1,)] and db.staging() == [staged[0].name]
    writer_of(sink, generation=2).close()
    assert db.staging() == [staged[0].name]
    backup.close()
    writer_of(sink, generation=3).close()
    assert db.staging() == []


@pytest.mark.parametrize("delivery", EXACT)
def test_all_old_rows_of_the_ledger_go_at_once(db, delivery):
    db.run("CREATE TABLE sink_l (id INT PRIMARY KEY)")
    sink = db.builder("sink_l").set_columns("id").set_key_columns("id").set_delivery(delivery).build()
    sink.check()
    writer = writer_of(sink)
    writer.write(Batch.of_rows([(1,)]))
    committables = barrier(writer)
    writer.close()
    owner = committables[0].name[: committables[0].name.index("_", 3)]
    numbers = "(SELECT seq AS n FROM seq_1_to_25000) s" if db.is_mysql else "generate_series(1, 25000) n"
    old = "CURRENT_TIMESTAMP - INTERVAL '31' DAY"
    db.run(f"INSERT INTO penstock_commits SELECT CONCAT('{owner}_1_0_abcdef_', n), 1, {old} FROM {numbers}")
    db.run(f"INSERT INTO penstock_commits SELECT CONCAT('ps_other_', n), 1, {old} FROM {numbers} LIMIT 5")
    assert commit(sink, committables) == ["COMMITTED"]
    assert db.run("SELECT COUNT(*) FROM penstock_commits") == [(6,)]
