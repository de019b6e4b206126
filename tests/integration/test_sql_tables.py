"""CREATE TABLE and INSERT INTO: connectors, formats, views, functions, statement sets, EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import JobStatus
from penstock.core.errors import ConfigError
from penstock.dataframe import udf
from penstock.sql import Session, SqlError
from penstock.sql.running import complete, run_text
from penstock.testing.local import local_cluster
from tests.sql_kit import orders, rows_of

COLUMNS = "id BIGINT NOT NULL, name STRING, price DOUBLE, ts TIMESTAMP(3)"
VALUES = """VALUES (1, 'ann', 1.5e0, TIMESTAMP '2026-01-31 12:00:00.250'),
    (2, NULL, CAST(NULL AS DOUBLE), TIMESTAMP '1969-12-31 23:59:59'),
    (3, 'b,"''', -2e0, CAST(NULL AS TIMESTAMP(3)))"""

plus_one = udf(lambda number: number + 1, result_type=pa.int64())


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "avro", "orc"])
def test_files_are_written_and_read(name: str, tmp_path: Path) -> None:
    session = Session()
    session.sql(
        f"CREATE TABLE f ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = "
        f"'{name}')"
    )
    session.sql(f"INSERT INTO f {VALUES}")
    session.env.execute("write")
    found = rows_of(session.sql("SELECT id, name, price, CAST(ts AS STRING) AS ts FROM f"))
    assert found == [
        (1, "ann", 1.5, "2026-01-31 12:00:00.250"),
        (2, None, None, "1969-12-31 23:59:59.000"),
        (3, "b,\"'", -2.0, None),
    ]


def test_partitions_become_directories(tmp_path: Path) -> None:
    session = Session()
    session.register("orders", orders())
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    session.sql(f"CREATE TABLE f (id BIGINT, country STRING) PARTITIONED BY (country) {options}")
    session.sql("INSERT INTO f SELECT id, country FROM orders WHERE price > 4")
    session.env.execute("write")
    assert sorted(it.name for it in tmp_path.iterdir() if it.is_dir()) == ["country=fr", "country=it"]
    assert rows_of(session.sql("SELECT * FROM f")) == [(2, "fr"), (4, "it")]


def test_generated_rows_are_the_same_again() -> None:
    session = Session()
    session.sql(
        "CREATE TABLE g (n BIGINT, small INT, x DOUBLE, d DECIMAL(5, 2), t STRING, yes BOOLEAN, maybe "
        "STRING, ts TIMESTAMP(3)) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '500', 'fields.n.kind' = 'sequence', "
        "'fields.n.start' = '10', "
        "'fields.n.end' = '10000', 'fields.small.min' = '-3', 'fields.small.max' = '3', 'fields.t.length' "
        "= '20', "
        "'fields.maybe.null-rate' = '0.5', 'fields.maybe.length' = '2', 'rows-per-second' = '1000000')"
    )
    query = "SELECT n, small, x, d, t, yes, maybe FROM g"
    first, second = session.sql(query).to_pylist(), rows_of(session.sql(query))
    assert sorted((tuple(row.values()) for row in first), key=str) == second
    assert {row["n"] for row in first} == set(range(10, 510))
    assert {row["small"] for row in first} == set(range(-3, 4))
    assert all(0 <= row["x"] < 1 and len(row["t"]) == 20 for row in first)
    assert 150 < sum(row["maybe"] is None for row in first) < 350
    assert len({row["t"] for row in first}) == 500 and {row["yes"] for row in first} == {True, False}


def test_event_time_of_a_computed_column() -> None:
    session = Session()
    session.sql(
        "CREATE TABLE g (millis BIGINT, ts AS TO_TIMESTAMP_LTZ(millis * 100, 3), p AS PROCTIME(), "
        "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen', "
        "'fields.millis.kind' = 'sequence', 'fields.millis.start' = '0', 'fields.millis.end' = '39')"
    )
    assert [(row["name"], row["event time"]) for row in session.sql("DESCRIBE g").to_pylist()] == [
        ("millis", False),
        ("ts", True),
        ("p", False),
    ]
    query = (
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    assert rows_of(session.sql(query)) == [(10,)] * 4


def test_a_set_of_statements_is_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("even", "odd"):
        (tmp_path / name).mkdir()
    text = f"""
    CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',
        'fields.id.start' = '1', 'fields.id.end' = '4');
    CREATE TABLE even (id BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/even', 'format' = 'json');
    CREATE TABLE odd (id BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/odd', 'format' = 'json');
    CREATE VIEW halves AS SELECT id, MOD(id, 2) AS rest FROM n;
    EXECUTE STATEMENT SET BEGIN
        INSERT INTO even SELECT id FROM halves WHERE rest = 0;
        INSERT INTO odd SELECT id FROM halves WHERE rest = 1;
    END;
    SELECT id FROM odd WHERE id > 1;
    SHOW TABLES;
    """
    said: list[str] = []
    session = Session()
    run_text(session, text, said.append)
    assert said.count("Done.") == 1
    assert any("| " in line and " 3 |" in line for line in said)
    assert [row["name"] for row in session.sql("SHOW TABLES").to_pylist()] == ["even", "halves", "n", "odd"]
    ids = [
        json.loads(line)["id"]
        for file in (tmp_path / "even").rglob("*.json")
        for line in file.read_text().split()
    ]
    assert sorted(ids) == [2, 4]


def test_print_and_blackhole(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    session.env.set_parallelism(1)
    session.sql("CREATE TABLE p (id BIGINT, name STRING) WITH ('connector' = 'print')")
    session.sql("CREATE TABLE b (id BIGINT) WITH ('connector' = 'blackhole')")
    session.sql("INSERT INTO p (id) VALUES (1), (2)")
    session.sql("INSERT INTO b SELECT n FROM (VALUES (1)) AS t(n)")
    session.env.execute("print")
    assert sorted(capsys.readouterr().out.splitlines()) == ["+I[1, null]", "+I[2, null]"]


def test_functions_are_called() -> None:
    session = Session()
    session.register_function("more", plus_one)
    assert rows_of(session.sql("SELECT more(n) AS m FROM (VALUES (1), (2)) AS t(n)")) == [(2,), (3,)]
    session.sql(f"CREATE TEMPORARY FUNCTION again AS '{__name__}.plus_one' LANGUAGE PYTHON")
    assert rows_of(session.sql("SELECT again(n) AS m FROM (VALUES (1)) AS t(n)")) == [(2,)]
    with pytest.raises(SqlError, match="no 'nowhere.f' to import"):
        session.sql("CREATE FUNCTION f AS 'nowhere.f'")
    session.sql("DROP FUNCTION again")
    with pytest.raises(SqlError, match="no function AGAIN"):
        session.sql("SELECT again(1) AS m")


def test_explain_shows_steps_and_the_names_of_state() -> None:
    session = Session()
    session.register("orders", orders(), time="ts")
    query = (
        "SELECT country, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        "GROUP BY country, window_start, window_end"
    )
    lines = [row["plan"] for row in session.sql(f"EXPLAIN {query}").to_pylist()]
    assert any("Window Aggregate" in line for line in lines)
    assert any(line.startswith("  window-") and "COUNT(1)" in line for line in lines)
    assert session.env.graph.declared == 0  # nothing was added to the program


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("INSERT INTO f SELECT 1 AS id", "the query has 1 columns"),
        ("INSERT INTO f (id, nme) SELECT 1, 'a'", "no column 'nme'"),
        ("INSERT INTO f (name) SELECT 'a' AS n", "NOT NULL and is not in the list"),
        ("INSERT INTO f SELECT 'x' AS id, 'a' AS name", "is string, and column 'id'"),
        ("INSERT OVERWRITE f SELECT 1 AS id, 'a' AS name", "INSERT OVERWRITE is not there"),
    ],
)
def test_an_insert_that_does_not_fit_is_refused(insert: str, message: str, tmp_path: Path) -> None:
    session = Session()
    session.sql(
        "CREATE TABLE f (id BIGINT NOT NULL, name STRING) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'json')"
    )
    with pytest.raises(SqlError, match=message):
        session.sql(insert)


def test_parquet_of_others_is_read_with_its_event_time(tmp_path: Path) -> None:
    times = pa.array([0, 500, 61_000], pa.timestamp("ms"))
    pq.write_table(pa.table({"ts": times, "n": [1, 2, 3]}), tmp_path / "a.parquet")
    session = Session()
    session.sql(
        "CREATE TABLE f (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = "
        "'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    query = (
        "SELECT SUM(n) AS n FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end"
    )
    assert rows_of(session.sql(query)) == [(3,), (3,)]


def test_a_name_is_given_once() -> None:
    session = Session()
    session.sql("CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole')")
    with pytest.raises(SqlError, match="'t' is there already"):
        session.sql("CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole')")
    session.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT) WITH ('connector' = 'blackhole')")
    session.sql("DROP TABLE t")
    session.sql("DROP TABLE IF EXISTS t")
    with pytest.raises(ConfigError, match="register takes a DataFrame"):
        session.register("t", 3)  # type: ignore[arg-type]
    assert session.catalog.names == []


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1; -- ;", True),
        ("-- ;", False),
        ("", False),
    ],
)
def test_a_statement_ends_with_a_semicolon(typed: str, whole: bool) -> None:
    assert complete(typed) is whole


def test_the_job_of_an_insert_can_be_watched() -> None:
    session = Session()
    session.sql("CREATE TABLE b (id BIGINT) WITH ('connector' = 'blackhole')")
    session.sql("INSERT INTO b VALUES (1)")
    client = session.env.execute_async("watched")
    client.get_job_execution_result().result()
    assert client.get_job_status().result() == JobStatus.FINISHED
