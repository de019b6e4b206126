"""What is wrong is said in one sentence when the job is submitted, with the way out and without secrets."""

from __future__ import annotations

import re

import pytest
from database_kit import MARIADB, POSTGRESQL, Db, database

from penstock.common import Types
from penstock.connectors.database.sink import DatabaseSink, Delivery
from penstock.core.errors import ConnectorError
from penstock.testing.servers import PostgresServer
from tests.servers import skip_without


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run(
            "CREATE TABLE sink_t (k INT PRIMARY KEY, h SMALLINT NOT NULL DEFAULT 0, v VARCHAR(10), b BIGINT)"
        )
        yield db


def said(sink: DatabaseSink) -> str:
    with pytest.raises(ConnectorError) as raised:
        sink.check()
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("password", "no-such-pw"), "(?i)(access denied|authentication failed) for user"),
        (("port", 1), "(?i)refused"),
        (
            ("database", "nowhere"),
            "(?i)(unknown|access denied|does not exist).*nowhere|nowhere.*does not exist",
        ),
        (("host", "no-such-host.invalid"), "(?i)not known"),
    ],
)
def test_servers_that_cannot_be_used(db, change, expected):
    parts = {"host": db.server.host, "port": db.server.port, "database": db.server.database}
    parts |= {"password": db.server.password, change[0]: change[1]}
    scheme = db.url.split(":")[0]
    url = f"{scheme}://{db.server.user}@{parts['host']}:{parts['port']}/{parts['database']}"
    sink = DatabaseSink.builder().set_url(url).set_password(parts["password"]).set_table("sink_t")
    message = said(sink.set_columns("k").set_key_columns("k").build())
    assert re.search(expected, message) and url in message and "See that the server runs" in message
    assert str(parts["password"]) not in message


@pytest.mark.parametrize(
    ("table", "columns", "keys", "expected"),
    [
        ("sink_missing", ["k"], ["k"], "there is no table 'sink_missing' of .*create it, or grant rights"),
        ("sink_t", ["k", "nope"], ["k"], "has no column 'nope'; its columns are: k, h, v, b"),
        ("sink_t", ["v"], [], "wants a value for k in every row, but the sink writes only v"),
        ("sink_t", ["k", "v"], ["v"], r"no primary key or unique index on exactly v.*ADD UNIQUE \(v\)"),
        ("sink_t", ["k", "v"], ["k", "v"], "no primary key or unique index on exactly k, v"),
    ],
)
def test_tables_that_do_not_fit(db, table, columns, keys, expected):
    delivery = Delivery.UPSERT if keys else Delivery.BULK_LOAD
    sink = db.builder(table).set_columns(*columns).set_key_columns(*keys).set_delivery(delivery).build()
    assert re.search(expected, said(sink))


@pytest.mark.parametrize("delivery", [Delivery.UPSERT, Delivery.BULK_LOAD])
def test_a_key_that_may_be_null_is_refused(db, delivery):
    """NULL is equal to nothing: a row with it would be written again at every repetition."""
    db.run("CREATE TABLE sink_n (k INT UNIQUE, v INT)")
    sink = db.builder("sink_n").set_columns("k", "v").set_key_columns("k").set_delivery(delivery).build()
    assert "key column k of table 'sink_n'" in said(sink) and "make it NOT NULL" in said(sink)


def test_a_computed_column_is_not_written(db):
    db.run("CREATE TABLE sink_c (k INT PRIMARY KEY, d INT GENERATED ALWAYS AS (k * 2) STORED)")
    good = db.builder("sink_c").set_columns("k").set_key_columns("k").build()
    good.check()
    bad = db.builder("sink_c").set_columns("k", "d").set_key_columns("k").build()
    assert "column 'd'" in said(bad) and "computed by the database" in said(bad)


@pytest.mark.parametrize(
    ("column", "type_info", "fits"),
    [
        ("h", Types.SHORT(), True),
        ("h", Types.INT(), False),
        ("b", Types.LONG(), True),
        ("b", Types.DOUBLE(), False),
        ("b", Types.SQL_TIMESTAMP(), False),
        ("v", Types.LONG(), True),
        ("v", Types.STRING(), True),
    ],
)
def test_types_that_a_column_cannot_hold(db, column, type_info, fits):
    sink = db.builder("sink_t").set_key_columns("k").build()
    typed = sink.typed(Types.ROW_NAMED(["k", column], [Types.INT(), type_info]))
    if fits:
        typed.check()
    else:
        message = said(typed)
        assert f"column '{column}'" in message and repr(type_info) in message and "cannot hold" in message


def test_a_table_in_another_schema_is_found(db):
    schema = db.server.database if db.is_mysql else "public"
    db.builder(f"{schema}.sink_t").set_columns("k", "v").set_key_columns("k").only_if_newer(
        "v"
    ).build().check()


def test_a_user_who_may_not_create_the_ledger_is_told_what_to_run(db):
    db.clean()
    db.run("CREATE TABLE sink_t (k INT PRIMARY KEY)")
    if db.is_mysql:
        db.run(
            "CREATE USER IF NOT EXISTS plain IDENTIFIED BY 'plain-pw'",
            f"GRANT SELECT, INSERT, UPDATE ON {db.server.database}.sink_t TO plain",
        )
    else:
        db.run(
            "DO $$ BEGIN CREATE USER plain PASSWORD 'plain-pw'; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "GRANT SELECT, INSERT, UPDATE ON sink_t TO plain",
            "REVOKE CREATE ON SCHEMA public FROM plain, PUBLIC",
        )
    builder = db.builder("sink_t").set_user("plain").set_password("plain-pw")
    message = said(builder.set_columns("k").set_delivery(Delivery.TWO_PHASE).build())
    assert "may not create it" in message and "CREATE TABLE IF NOT EXISTS penstock_commits" in message
    assert "plain-pw" not in message
    assert "drops them, which this user may not" in said(builder.bulk_load().build())


# --- one database only ----------------------------------------------------------------------------


@pytest.fixture
def mariadb(request):
    yield from database(request, MARIADB)


def test_xa_by_a_secondary_key_is_refused(mariadb):
    """With it, what one subtask has prepared would block the others: InnoDB locks gaps there."""
    mariadb.run(
        "CREATE TABLE sink_s (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, n INT, UNIQUE (a))"
    )
    builder = mariadb.builder("sink_s").set_columns("a", "n").set_key_columns("a")
    for delivery in (Delivery.UPSERT, Delivery.BULK_LOAD):
        builder.set_delivery(delivery).build().check()
    message = said(builder.set_delivery(Delivery.TWO_PHASE).build())
    assert "a is not the primary key" in message and "Make it the primary key" in message


def test_a_table_without_transactions_is_refused(mariadb):
    mariadb.run("CREATE TABLE sink_a (k INT PRIMARY KEY) ENGINE=Aria")
    sink = mariadb.builder("sink_a").set_columns("k").build()
    assert "takes no part in transactions" in said(sink) and "ENGINE=InnoDB" in said(sink)


def test_a_server_that_refuses_local_files_is_not_for_bulk_loads(mariadb):
    mariadb.run("CREATE TABLE sink_b (k INT PRIMARY KEY)")
    mariadb.run("SET GLOBAL local_infile = 0")
    try:
        assert "SET GLOBAL local_infile = 1" in said(
            mariadb.builder("sink_b").set_columns("k").bulk_load().build()
        )
    finally:
        mariadb.run("SET GLOBAL local_infile = 1")


def test_postgresql_that_prepares_nothing_is_refused():
    skip_without(PostgresServer)
    with PostgresServer(settings={"max_prepared_transactions": "0"}) as server:
        db = Db(server, "postgresql")
        db.run("CREATE TABLE sink_t (k INT PRIMARY KEY)")
        builder = db.builder("sink_t").set_columns("k").set_key_columns("k")
        message = said(builder.set_delivery(Delivery.TWO_PHASE).build())
        assert "ALTER SYSTEM SET max_prepared_transactions = 100" in message
        builder.set_delivery(Delivery.BULK_LOAD).build().check()
