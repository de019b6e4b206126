"""A refused statement of each kind: its message, and the place it names."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.sql import SqlError, dialect
from penstock.sql.connectors import sink_of
from penstock.sql.errors import Text
from tests.sql_kit import session

TUMBLE = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
OVER = "OVER (PARTITION BY country ORDER BY ts"
CREATE = "CREATE TABLE t (id BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'datagen')"
RANKED = "SELECT id, ROW_NUMBER() OVER (ORDER BY price) AS rn FROM orders"

REFUSED = [
    ("SELEC id FROM orders", 1, 1, "did you mean 'SELECT'"),
    ("SELECT id FROM orders WHERE (id = 1", 1, 35, "Expecting )"),
    ("SELECT id\nFROM ordrs", 2, 6, "no table 'ordrs'; did you mean 'orders'?"),
    ("SELECT id,\n       pric FROM orders", 2, 8, "no column 'pric'; did you mean 'price'?"),
    ("SELECT x.id FROM orders o", 1, 8, "no table 'x' here"),
    ("SELECT UPPR(country) FROM orders", 1, 8, "no function UPPR; did you mean 'UPPER'?"),
    ("SELECT UPPER(country, 1) FROM orders", 1, 8, "upper has 1 arguments, not 2"),
    ("SELECT country + 1 FROM orders", 1, 8, "string"),
    ("SELECT id FROM orders WHERE price", 1, 29, "a condition is true or false"),
    ("SELECT id AS a, price AS a FROM orders", 1, 17, "two columns are called 'a'"),
    ("SELECT NULL AS n FROM orders", None, None, "CAST(NULL AS BIGINT)"),
    ("SELECT SUM(price) FROM orders WHERE SUM(price) > 1", 1, 37, "SUM is an aggregate"),
    (f"SELECT id FROM {TUMBLE}", 1, 8, "GROUP BY window_start, window_end"),
    (f"SELECT window_start, COUNT(*) FROM {TUMBLE} GROUP BY window_start", 1, 110, "BY window_start, "
                                                                                   "window_end"),
    (f"SELECT id, COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_end", 1, 8, "neither in GROUP BY nor"),
    ("SELECT 1 FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(id), INTERVAL '1' SECOND)) GROUP BY window_start, "
     "window_end", 1, 53, "id is not the event time of its rows; that is ts"),
    ("SELECT 1 FROM TABLE(TUMBL(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' SECOND))", 1, 21,
     "did you mean 'TUMBLE'"),
    ("SELECT 1 FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts))) GROUP BY window_start, window_end", 1, 21,
     "TUMBLE is written"),
    ("SELECT 1 FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MONTH)) GROUP BY window_start, "
     "window_end", None, None, "an interval of MONTH has no fixed length"),
    ("SELECT id FROM orders ORDER BY id", 1, 32, "ORDER BY without LIMIT"),
    ("SELECT id FROM orders LIMIT 5", None, None, ".take(5)"),
    ("SELECT id FROM orders WHERE id NOT IN (SELECT order_id FROM payments)", 1, 29, "join with it instead"),
    ("SELECT id FROM orders WHERE id = 1 OR id IN (SELECT order_id FROM payments)", 1, 39,
     "a condition of WHERE by itself"),
    ("SELECT id FROM orders WHERE id IN (SELECT order_id, paid FROM payments)", 1, 29,
     "has one column, not 2"),
    ("SELECT id FROM orders WHERE id IN (SELECT country FROM orders)", 1, 29, "no common type"),
    ("SELECT id FROM orders WHERE id IN ()", 1, 29, "in has 2 or more arguments"),
    ("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM payments)", None, None, "join with it instead"),
    ("SELECT id FROM orders INTERSECT SELECT order_id FROM payments", 1, 8, "INTERSECT is not there"),
    ("SELECT id FROM orders EXCEPT SELECT order_id FROM payments", 1, 8, "EXCEPT is not there"),
    ("SELECT id FROM orders UNION ALL SELECT order_id, paid FROM payments", 1, 40, "as many columns on "
                                                                                   "both sides"),
    ("SELECT id FROM orders UNION ALL SELECT country FROM orders", 1, 40, "no common type"),
    ("SELECT o.id FROM orders o JOIN payments p ON o.price > p.paid", 1, 32, "needs an equation"),
    ("SELECT id FROM orders o CROSS JOIN payments p", None, None, "needs an equation"),
    ("SELECT ts FROM orders o JOIN payments p ON o.id = p.order_id WHERE ts > TIMESTAMP '2020-01-01 "
     "00:00:00'", 1, 68,
     "on both sides of the join"),
    ("SELECT o.id FROM orders o JOIN payments p USING (id)", None, None, "ON a.id = b.id"),
    ("SELECT country, COUNT(*) FROM orders GROUP BY ROLLUP (country)", None, None, "ROLLUP"),
    (f"{RANKED} UNION ALL SELECT id FROM orders", 1, 12, "ROW_NUMBER() needs WHERE rn <= n around it"),
    (f"SELECT * FROM ({RANKED} ORDER BY id LIMIT 2) WHERE rn = 1", 1, 27, "needs WHERE rn <= n around it"),
    (f"SELECT id FROM orders WHERE id IN ({RANKED})", 1, 47, "ROW_NUMBER() needs WHERE rn <= n around it"),
    ("SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY price) AS rn FROM orders", 1, 11,
     "WHERE rn <= n"),
    ("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY price) AS rn FROM orders) "
     "WHERE id = 1", 1, 26, "WHERE rn <= n"),
    ("SELECT CURRENT_TIMESTAMP AS now FROM orders", 1, 29, "the clock's time as a value"),
    ("SELECT NOW() AS now FROM orders", 1, 8, "the clock's time as a value"),
    ("SELECT RAND() AS r FROM orders", 1, 8, "others after a restart"),
    ("SELECT LISTAGG(country) AS l FROM orders", 1, 8, "there are COUNT, SUM, MIN, MAX and AVG"),
    ("SELECT CAST(id AS GEOMETRY) AS g FROM orders", None, None, "there are BOOLEAN"),
    ("WITH RECURSIVE r AS (SELECT 1 AS n) SELECT n FROM r", None, None, "WITH RECURSIVE"),
    ("WITH a AS (SELECT 1 AS n), a AS (SELECT 2 AS n) SELECT n FROM a", None, None,
     "two queries of WITH are called 'a'"),
    ("SELECT id FROM orders UNION ALL SELECT order_id FROM payments ORDER BY id LIMIT 2", None, None,
     "is not there"),
    ("SELECT id FROM orders WHERE id BETWEEN SYMMETRIC 3 AND 1", None, None, "SYMMETRIC is not there"),
    ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", None, None, "is not there"),
    ("SELECT id FROM orders FOR SYSTEM_TIME AS OF ts", None, None, "belongs behind JOIN"),
    ("SELECT FLOOR(price, 2) AS f FROM orders", None, None, "is not there"),
    ("DELETE FROM orders", None, None, "no statement that is there"),
    ("UPDATE orders SET id = 1", None, None, ""),
    ("CREATE TABLE t AS SELECT id FROM orders", None, None, "CREATE TABLE"),
    ("CREATE TABLE t (id BIGINT, id INT) WITH ('connector' = 'datagen')", 1, 28, "two columns are called "
                                                                                 "'id'"),
    ("CREATE TABLE t (id BIGINT, WATERMARK FOR id AS id + INTERVAL '1' SECOND) WITH ('connector' = "
     "'datagen')", 1, 42,
     "less a constant"),
    ("CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', 'connector' = 'print')", None, None,
     "given twice"),
    ("CREATE TABLE t (id BIGINT) WITH (connector = 'datagen')", 1, 34, "'name' = 'value'"),
    ("DROP TABLE nothing", 1, 12, "no table 'nothing'"),
    ("INSERT INTO nowhere SELECT id FROM orders", 1, 13, "no table 'nowhere' to write to"),
    ("SHOW CATALOGS", 1, 6, "SHOW knows TABLES"),
    ("END", None, None, "no statement set to END"),
    ("SELECT 1; SELECT 2", None, None, "2 statements where one is wanted"),
    ("", None, None, "no statement"),
    ("SELECT", None, None, "SELECT is followed by columns"),
    ("SELECT id FROM", None, None, "Expected table name; the statement ends too early"),
    ("SELECT id FROM orders WHERE country = 'de", 1, 39, "begins with ' here does not end"),
    ("SELECT id /* FROM orders", 1, 11, "begins with /* here does not end"),
    ("SELECT id FROM orders /*+ OPTIONS('a' = 'b') */ WHERE id = 1", 1, 23, "hints are not there"),
    ("INSERT INTO t /*+ OPTIONS('a' = 'b') */ SELECT id FROM orders", 1, 15, "hints are not there"),
    ("SELECT id FROM nowhere.orders", 1, 16, "there is no 'nowhere': tables have plain names"),
    ("CREATE TABLE d.t (id INT) WITH ('connector' = 'print')", 1, 14, "there is no 'd'"),
    ("SELECT country, COUNT(*) AS n FROM orders GROUP BY ALL", 1, 8, "GROUP BY ALL is not there"),
    ("SELECT COUNT(*) AS n FROM orders GROUP BY ()", None, None, "leave GROUP BY out"),
    ("SELECT country, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((country), ())", 1, 68, "UNION ALL"),
    ("SELECT country, COUNT(*) AS n FROM orders GROUP BY country WITH ROLLUP", None, None, "UNION ALL"),
    (f"SELECT LAG(id) {OVER}) AS n FROM orders", 1, 8, "LAG OVER rows is not there"),
    (f"SELECT UPPER(country) {OVER}) AS n FROM orders", 1, 8, "UPPER OVER rows is not there"),
    (f"SELECT SUM(id) {OVER} ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) AS n FROM orders", 1, 8,
     "begin before"),
    (f"SELECT SUM(id) {OVER} GROUPS 1 PRECEDING) AS n FROM orders", 1, 8, "ROWS and RANGE are"),
    (f"SELECT SUM(id) {OVER} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) AS n FROM orders", 1, 68,
     "is not there"),
    ("SELECT SUM(id) OVER w AS n FROM orders", 1, 21, "is not there"),
    ("SELECT id FROM orders ORDER BY 1 NULLS LAST LIMIT 1", 1, 32, "stand behind columns"),
    ("SELECT id FROM orders ORDER BY id FETCH FIRST 2 ROWS WITH TIES", 1, 47, "without ties"),
    ("SELECT EXTRACT(CENTURY FROM ts) AS c FROM orders", 1, 29, "no unit CENTURY"),
    ("SELECT CURRENT_DATE AS d FROM orders", 1, 24, "another one after a restart"),
    ("SELECT o.id FROM orders o, payments p, orders q WHERE o.id = p.order_id AND p.order_id = q.id AND "
     "price = 1", 1, 99, "'price' is in several tables"),
    ("CREATE TABLE t (id INT DEFAULT 3) WITH ('connector' = 'print')", 1, 17, "cannot stand behind a column"),
    ("CREATE TABLE t (id INT, UNIQUE (id)) WITH ('connector' = 'print')", None, None, "UNIQUE (id) cannot"),
    ("CREATE TABLE t (id INT, CONSTRAINT enforced CHECK (id > 1)) WITH ('connector' = 'print')", None, None,
     "cannot stand in CREATE"),
    ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a) NOT ENFORCED, PRIMARY KEY (b) NOT ENFORCED) WITH "
     "('connector' = 'print')", 1, 74, "one PRIMARY KEY"),
    ("CREATE TABLE t (a TIMESTAMP(3), b TIMESTAMP(3), WATERMARK FOR a AS a, WATERMARK FOR b AS b) WITH "
     "('connector' = 'print')", 1, 85, "one WATERMARK"),
    ("DROP TABLE orders, payments", None, None, "DROP takes one"),
    ("DROP TABLE orders CASCADE", None, None, "CASCADE is not there"),
    ("DESCRIBE EXTENDED orders", None, None, "STYLE is not there"),
    ("SET 'table.exec.state.ttl' = '1 h'", 1, 5, "state would never expire"),
    ("SET 'table.local-time-zone' = 'Asia/Shanghai'", 1, 5, "in UTC"),
    ("SET 'table.exec.emit.early-fire.enabled' = 'true'", 1, 5, "CUMULATE"),
]  # fmt: skip

WRITES = [
    ("INSERT INTO t (id, id) SELECT id, price FROM orders", 1, 13, "in the list twice"),
    ("INSERT INTO t SELECT 1.5 AS n", None, None, "write CAST(n AS ...)"),
    ("INSERT INTO t SELECT PROCTIME() AS p, id FROM orders", 1, 13, "time of the clock"),
    ("INSERT INTO t PARTITION (id = 1) SELECT id FROM orders", None, None, "PARTITION"),
    ("INSERT INTO t SELECT 1 AS n ON CONFLICT DO NOTHING", None, None, "ON CONFLICT DO NOTHING is not there"),
    ("INSERT INTO v SELECT id FROM orders", 1, 13, "no table 'v' to write to"),
    ("DROP VIEW t", 1, 11, "there is no view 't'"),
    ("DROP TABLE v", 1, 12, "there is no table 'v'"),
]


@pytest.mark.parametrize(("statement", "line", "column", "message"), WRITES, ids=[it[3] for it in WRITES])
def test_what_a_table_cannot_take_is_refused(statement: str, line: int, column: int, message: str) -> None:
    found = session()
    found.sql("CREATE TABLE t (id INT COMMENT 'c') COMMENT 'it' WITH ('connector' = 'print')")
    found.sql("CREATE VIEW v AS SELECT id FROM orders")
    with pytest.raises(SqlError) as refused:
        found.sql(statement)
    assert message in str(refused.value)
    if line is not None:
        assert (refused.value.line, refused.value.column) == (line, column)


def test_settings_that_change_nothing_are_taken() -> None:
    for key, value in (("table.exec.mini-batch.enabled", "true"), ("table.exec.state.ttl", "0 ms")):
        statement = f"SET '{key}' = '{value}'"
        assert session().perform(dialect.one(statement), Text(statement)).said == key


def test_a_table_that_is_only_written_is_described() -> None:
    found = session()
    found.sql("CREATE TABLE t (id INT NOT NULL) WITH ('connector' = 'print')")
    described = found.perform(dialect.one("DESCRIBE t"), Text("DESCRIBE t")).rows
    assert described == ({"name": "id", "type": "int32", "null": False, "event time": False},)


@pytest.mark.parametrize(
    ("statement", "line", "column", "message"), REFUSED, ids=[it[0][:50] for it in REFUSED]
)
def test_a_refusal_names_its_place_and_a_way(statement: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        session().sql(statement)
    assert message in str(refused.value)
    if line is not None:
        assert (refused.value.line, refused.value.column) == (line, column)
        assert str(refused.value).startswith(f"line {line}, column {column}: ")


OPTIONS = [
    ("CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagn')", "did you mean 'datagen'?"),
    (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-secnd' = '5')",
        "did you mean 'rows-per-second'?",
    ),
    (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = 'many')",
        "is a whole number",
    ),
    ("CREATE TABLE t (id BIGINT) WITH ('connector' = 'print')", "cannot be read"),
    (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere')",
        "needs the option 'format'",
    ),
    (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'xml')",
        "json, csv",
    ),
    (
        "CREATE TABLE t (id BIGINT, WATERMARK FOR id AS id) WITH ('connector' = 'datagen')",
        "event time is TIMESTAMP(3)",
    ),
    ("CREATE TABLE t (id MAP<STRING, INT>) WITH ('connector' = 'datagen')", "datagen makes no"),
]


@pytest.mark.parametrize(("statement", "message"), OPTIONS, ids=[it[1] for it in OPTIONS])
def test_options_are_checked_when_the_table_is_read(statement: str, message: str) -> None:
    found = session()
    found.sql(statement)
    with pytest.raises(ConfigError) as refused:
        found.sql("SELECT * FROM t")
    assert message in str(refused.value)


_KAFKA = {"topic": "t", "properties.bootstrap.servers": "localhost:1", "format": "json"}
_UPSERT = {
    "topic": "t",
    "properties.bootstrap.servers": "localhost:1",
    "key.format": "json",
    "value.format": "json",
}
_JDBC = {"url": "mysql://localhost:1/d", "table-name": "t"}
MISTYPED = [
    ("filesystem", {"path": "/x", "format": "json"}, "format", "fromat"),
    ("filesystem", {"path": "/x", "format": "json"}, "path", "pth"),
    ("kafka", _KAFKA, "format", "fromat"),
    ("kafka", _KAFKA, "topic", "tpic"),
    ("kafka", {**_KAFKA, "sink.delivery-guarantee": "none"}, "sink.delivery-guarantee", "sink.delivery"),
    ("upsert-kafka", _UPSERT, "topic", "topc"),
    ("upsert-kafka", _UPSERT, "key.format", "key.formt"),
    ("upsert-kafka", _UPSERT, "value.format", "value.fromat"),
    ("jdbc", {**_JDBC, "username": "u"}, "url", "ur"),
    ("jdbc", {**_JDBC, "username": "u"}, "table-name", "tablename"),
    ("jdbc", {**_JDBC, "username": "u"}, "username", "user-name"),
    ("jdbc", {**_JDBC, "username": "u", "password": "hunter2"}, "password", "pasword"),
    ("jdbc", {**_JDBC, "username": "u", "sink.max-retries": "3"}, "sink.max-retries", "sink.max-retry"),
    ("print", {"print-identifier": "p"}, "print-identifier", "print-identifer"),
]


def _sink(connector: str, options: dict[str, str]) -> None:
    found = session()
    written = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    found.sql(
        f"CREATE TABLE t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = '{connector}'"
        f"{', ' if written else ''}{written})"
    )
    sink_of(found.catalog.tables["t"])


@pytest.mark.parametrize(
    ("connector", "options", "right", "wrong"), MISTYPED, ids=[f"{it[0]}-{it[3]}" for it in MISTYPED]
)
def test_a_mistyped_option_is_named_with_the_right_one(
    connector: str, options: dict[str, str], right: str, wrong: str
) -> None:
    _sink(connector, options)
    with pytest.raises(ConfigError) as refused:
        _sink(connector, {wrong if name == right else name: it for name, it in options.items()})
    assert f"has no option '{wrong}'; did you mean '{right}'?" in str(refused.value)


def test_an_option_that_is_left_out_is_missing_whatever_others_there_are() -> None:
    without = {name: it for name, it in _UPSERT.items() if name != "key.format"}
    with pytest.raises(ConfigError, match=r"(?m)table 't' needs the option 'key.format'$"):
        _sink("upsert-kafka", without)


def test_no_option_shows_its_value() -> None:
    found = session()
    found.sql(
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'jdbc', 'pasword' = 'hunter2', 'url' = 'mysql://h/d')"
    )
    with pytest.raises(ConfigError) as refused:
        found.sql("SELECT * FROM t")
    assert "hunter2" not in str(refused.value) + repr(found.catalog.tables["t"])
    for statement in (
        "SET 'some.password' = 'hunter2'",
        "CREATE TABLE u (id BIGINT) WITH ('password' = hunter2)",
        "CREATE TABLE u (id BIGINT) WITH ('password' 'hunter2')",
    ):
        with pytest.raises(ConfigError) as refused:
            found.sql(statement)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("deep", ["(" * 20_000 + "1" + ")" * 20_000, "+".join(["1"] * 5_000)])
def test_a_deep_statement_is_refused(deep: str) -> None:
    with pytest.raises(SqlError, match="nested too deeply"):
        session().sql(f"SELECT {deep} AS n")


def test_a_set_takes_inserts_only() -> None:
    found = session()
    found.sql("BEGIN STATEMENT SET")
    with pytest.raises(SqlError, match="takes INSERT INTO"):
        found.sql("SELECT id FROM orders")


def test_a_function_that_is_none_of_udf() -> None:
    found = session()
    found.register_function("f", lambda value: 3)
    with pytest.raises(SqlError, match="is made by udf"):
        found.sql("SELECT f(id) AS f FROM orders")
