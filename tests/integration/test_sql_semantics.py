"""What statements come to where engines are apt to differ: nulls, zeros, types that meet, outer joins."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_jobs import environment

import penstock.dataframe as pf
from penstock.common import Row, WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.sql import Session, SqlError
from penstock.sql.session import session_of
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, cued_source
from tests.sql_kit import rows_of


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def session(env: StreamExecutionEnvironment | None = None) -> Session:
    found = Session(env)
    found.register(
        "t",
        pf.from_dict(
            {
                "a": pa.array([1, 2, 3, None], pa.int64()),
                "i": pa.array([1, 1, 5, None], pa.int32()),
                "s": ["x", "y", None, "abcdef"],
                "x": [1.5, None, 0.0, -0.0],
                "big": [2**60, -(2**63), 2**53 + 1, None],
            }
        ),
    )
    found.register("u", pf.from_dict({"a": pa.array([1, 5, None], pa.int64()), "w": ["p", "q", "r"]}))
    return found


CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT COUNT(*) AS c FROM t", [(4,)]),
    ("SELECT COUNT(*) AS c FROM t WHERE a > 1", [(2,)]),
    ("SELECT 1 AS one FROM t HAVING COUNT(*) > 3", [(1,)]),
    # The key of an outer join is null where its side has no row.
    ("SELECT t.a AS x, u.a AS y FROM t RIGHT JOIN u ON t.a = u.a", [(1, 1), (None, 5), (None, None)]),
    ("SELECT t.a AS x, u.w AS y FROM t FULL JOIN u ON t.a = u.a WHERE t.a IS NULL",
     [(None, None), (None, "q"), (None, "r")]),
    # WHERE is about what all joins give.
    ("SELECT u.w AS w FROM t JOIN t AS o ON t.a = o.a RIGHT JOIN u ON t.a = u.a WHERE t.a = 1", [("p",)]),
    ("SELECT t.a AS x, u.a AS y FROM t LEFT JOIN u ON t.a = u.a AND FALSE WHERE t.a = 1", [(1, None)]),
    ("SELECT t.i AS x, u.a AS y FROM t JOIN u ON t.i = u.a WHERE "
     "TIMESTAMPDIFF(DAY, TIMESTAMP '2026-01-31 00:00:00', TIMESTAMP '2026-02-01 00:00:00') = t.i / u.a",
     [(1, 1), (1, 1), (5, 5)]),
    ("SELECT x.a AS x, y.a AS y FROM t AS x JOIN t AS y ON x.a = y.a WHERE y.a > 2", [(3, 3)]),
    # Keys that are computed, or copied, have other names in each of several joins.
    ("SELECT o.a AS y, u.a AS z FROM t JOIN t AS o ON t.a + 1 = o.a JOIN u ON o.a + 2 = u.a", [(3, 5)]),
    ("SELECT o.a AS y, u.a AS z FROM t LEFT JOIN t AS o ON t.a = o.a FULL JOIN u ON o.a = u.a WHERE "
     "u.w IS NULL",
     [(2, None), (3, None), (None, None)]),
    ("SELECT x IN (0.0e0) AS z FROM t", [(False,), (None,), (True,), (True,)]),
    ("SELECT big * 1e0 AS d FROM t WHERE big < -1.5e0", [(-(2.0**63),)]),
    ("SELECT CAST(i AS DECIMAL(5, 2)) AS d FROM t WHERE a = 3", [(Decimal("5.00"),)]),
    ("SELECT CAST(s AS VARCHAR(3)) AS v, CAST(i AS CHAR(2)) AS c FROM t WHERE a IS NULL", [("abc", None)]),
    ("SELECT CAST('ab' AS CHAR(4)) AS c FROM t WHERE a = 1", [("ab  ",)]),
    ("SELECT a FROM t ORDER BY a NULLS LAST LIMIT 1", [(1,)]),
    ("SELECT a FROM t ORDER BY a DESC NULLS FIRST FETCH FIRST 1 ROWS ONLY", [(None,)]),
    ("SELECT a FROM t ORDER BY a LIMIT 1", [(None,)]),
    ("SELECT a, rn FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY a NULLS LAST) AS rn FROM t) WHERE rn <= 1",
     [(1, 1)]),
    # As in Flink, where DuckDB has it otherwise.
    ("SELECT CAST(x AS INT) AS n, CAST(x > 1e0 AS STRING) AS s FROM t WHERE a = 1", [(1, "TRUE")]),
    ("SELECT CAST(1.99 AS INT) AS n, LEFT('abc', -1) AS l, CONCAT('a', NULL) AS c FROM t WHERE a = 1",
     [(1, "", None)]),
    ("SELECT CAST(TIMESTAMP '2020-01-01 00:00:01' AS STRING) AS s FROM t WHERE a = 1",
     [("2020-01-01 00:00:01.000",)]),
    ("SELECT SUM(a) AS s FROM t WHERE a > 100", []),
    ("VALUES (1, 'a'), (2, NULL)", [(1, "a"), (2, None)]),
    ("SELECT a FROM default_catalog.default_database.t WHERE a NOT IN (1, NULL) OR a = 3", [(3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "wanted"), CASES, ids=[it[0] for it in CASES])
def test_a_query_gives(query: str, wanted: list[tuple[Any, ...]]) -> None:
    assert rows_of(session().sql(query)) == sorted(wanted, key=str)


def test_a_null_does_not_pass_for_what_was_declared_without() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    found = session(env)
    found.sql("CREATE TABLE o (a BIGINT NOT NULL) WITH ('connector' = 'blackhole')")
    found.sql("INSERT INTO o SELECT a FROM t")
    with pytest.raises(JobFailedError, match="NOT NULL was declared"):
        env.execute("nulls")


def test_rows_that_go_may_have_nulls_and_keys_may_become_wider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path)
    env.set_parallelism(1)
    script = [Row(k=1, v=5), Row(k=2, v=6), AwaitCheckpoint(), Row(k=1, v=7)]
    stream = env.from_source(cued_source(script), WatermarkStrategy.no_watermarks(), "seen")
    found = Session(env)
    found.register("seen", pf.from_data_stream(stream, pa.schema({"k": pa.int32(), "v": pa.int64()})))
    options = "PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print')"
    found.sql(f"CREATE TABLE o (k BIGINT, n BIGINT NOT NULL, {options}")
    counted = "SELECT k, NULLIF(COUNT(*), 2) AS n FROM seen GROUP BY k"
    found.sql(f"INSERT INTO o SELECT k, n FROM ({counted}) AS r WHERE n IS NOT NULL")
    env.execute("goes")
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:2]) == ["+I[1, 1]", "+I[2, 1]"] and [line[:5] for line in lines[2:]] == ["-U[1,"]


def uids(*statements: str) -> dict[str, str]:
    """The ids of the groups of statements, by the sinks they go to."""
    env = StreamExecutionEnvironment.get_execution_environment()
    found = session(env)
    for name in ("one", "two"):
        options = "PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print')"
        found.sql(f"CREATE TABLE {name} (k STRING, n BIGINT, {options}")
    for statement in statements:
        found.sql(statement)
    nodes = {it.id: it for it in env.graph.nodes}
    ids = {}
    for sink in (it for it in nodes.values() if it.sink is not None):
        step = sink
        while not str(step.uid).startswith(("group", "join")):
            step = nodes[step.links[0].source]
        ids[sink.name] = str(step.uid)
    return ids


def test_steps_that_differ_in_filters_only_keep_their_states_apart() -> None:
    first, second = (
        f"INSERT INTO {sink} SELECT s AS k, COUNT(*) AS n FROM t WHERE {what} GROUP BY s"
        for sink, what in (("one", "a > 1"), ("two", "x > 1"))
    )
    both = uids(first, second)
    assert len(set(both.values())) == 2
    assert both == uids(second, first)  # in whatever order they are written
    assert not set(both.values()) & set(uids(second).values())  # alone it does not take the other's state
    assert [*uids(first).values()] == [*uids(second).values()]  # as a changed filter keeps it


def test_what_is_made_of_a_step_that_begins_anew_begins_anew() -> None:
    query = "INSERT INTO one SELECT k, COUNT(*) AS n FROM (SELECT MAX(s) AS k FROM t GROUP BY {}) GROUP BY k"
    assert uids(query.format("a")) != uids(query.format("x"))
    join = "INSERT INTO one SELECT s AS k, t.a AS n FROM t JOIN u ON t.a + {} = u.a"
    assert uids(join.format(1)) != uids(join.format(2))


def test_a_statement_set_that_is_refused_adds_nothing() -> None:
    from penstock.table import StreamTableEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    t_env.execute_sql("CREATE TABLE o (a INT) WITH ('connector' = 'blackhole')")
    both = t_env.create_statement_set().add_insert_sql("INSERT INTO o SELECT CAST(1 AS INT) AS a")
    with pytest.raises(SqlError, match="takes 1"):
        both.add_insert_sql("INSERT INTO o SELECT 1 AS a, 2 AS b").execute()
    assert not env.graph.nodes and not session_of(env).in_set
