"""SQL on the in-process cluster: what queries give, by the rows that come out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.sql_kit import orders, rows_of, session


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def at(second: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=second)


def result(query: str) -> list[tuple[Any, ...]]:
    return rows_of(session().sql(query))


def test_an_environment_runs_a_query_over_a_dataframe() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    found = env.sql("SELECT country, price * 2 AS twice FROM orders WHERE price > 3", orders=orders())
    assert rows_of(found) == [("de", 8), ("fr", 10), ("it", 18)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT id, price FROM orders WHERE price IS NULL", [(5, None)]),
        ("SELECT o.id FROM orders AS o WHERE o.country IN ('it', 'es') OR o.id = 1", [(1,), (4,)]),
        ("SELECT id FROM orders WHERE price BETWEEN 4 AND 5", [(2,), (3,)]),
        ("SELECT id FROM orders WHERE NOT (price > 1) ", [(6,)]),
        ("SELECT CASE WHEN price > 4 THEN 'much' WHEN price > 2 THEN 'some' END AS s FROM orders WHERE id "
         "< 3",
         [("much",), ("some",)]),
        ("SELECT CASE country WHEN 'de' THEN 1 ELSE 0 END AS c FROM orders WHERE id IN (1, 2)", [(0,), (1,)]),
        ("SELECT COALESCE(price, -1) AS p FROM orders WHERE id = 5", [(-1,)]),
        ("SELECT UPPER(country) || '-' || CAST(id AS STRING) AS k FROM orders WHERE id = 4", [("IT-4",)]),
        ("SELECT MOD(id, 2) AS m, id / 2 AS h, -id AS n FROM orders WHERE id = 5", [(1, 2, -5)]),
        ("SELECT HOUR(ts) AS h, EXTRACT(SECOND FROM ts) AS s, FLOOR(ts TO SECOND) AS f FROM orders WHERE "
         "id = 4",
         [(0, 1, at(1))]),
        ("SELECT DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss') AS d FROM orders WHERE id = 5",
         [("1970-01-01 00:00:02",)]),
        ("SELECT ts + INTERVAL '1' MINUTE AS later FROM orders WHERE id = 1", [(at(60.1),)]),
        ("SELECT id FROM orders WHERE ts >= TIMESTAMP '1970-01-01 00:00:02.200'", [(6,)]),
        ("SELECT id FROM orders WHERE country LIKE '%e' AND country IS NOT NULL", [(1,), (3,), (6,)]),
        ("SELECT SUBSTRING(country FROM 2 FOR 1) AS c, POSITION('t' IN country) AS p FROM orders WHERE id "
         "= 4",
         [("t", 2)]),
        ("SELECT REGEXP_EXTRACT(country, '(.)$', 1) AS r, SPLIT_INDEX('a,b', ',', 1) AS s FROM orders "
         "WHERE id = 4",
         [("t", "b")]),
        ("SELECT TRIM(LEADING 'd' FROM country) AS t FROM orders WHERE id = 1", [("e",)]),
        ("SELECT IF(price > 3, 'a', 'b') AS i FROM orders WHERE id = 2", [("a",)]),
        ("SELECT ARRAY[1, id][2] AS second FROM orders WHERE id = 3", [(3,)]),
        ("SELECT * FROM (SELECT id, price AS p FROM orders) AS q WHERE q.p = 9", [(4, 9)]),
        ("WITH big AS (SELECT * FROM orders WHERE price > 4) SELECT b.id FROM big b", [(2,), (4,)]),
        ("SELECT id FROM orders WHERE id = 1 UNION ALL SELECT order_id FROM payments WHERE order_id = 9",
         [(1,), (9,)]),
        ("SELECT n, s FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s)", [(1, "a"), (2, None)]),
        ("SELECT 1 AS one, 'x' AS x", [(1, "x")]),
        ("SELECT `id` AS `order` FROM `orders` WHERE id = 2 -- a comment", [(2,)]),
        ("SELECT (id = 1) IS TRUE AS t, price IS NOT DISTINCT FROM 3 AS d FROM orders WHERE id = 1",
         [(True, True)]),
    ],
)  # fmt: skip
def test_rows_are_filtered_and_computed(query: str, wanted: list[tuple[Any, ...]]) -> None:
    assert result(query) == wanted


TUMBLE = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' SECOND))"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            f"SELECT country, window_start, COUNT(*) AS n, SUM(price) AS total FROM {TUMBLE} "
            "GROUP BY country, window_start, window_end",
            [("de", at(0), 2, 7), ("de", at(2), 1, 1), ("fr", at(0), 1, 5), ("fr", at(2), 1, None),
             ("it", at(1), 1, 9)],
        ),
        (
            f"SELECT window_end, MAX(price) AS top FROM {TUMBLE} GROUP BY window_start, window_end",
            [(at(1), 5), (at(2), 9), (at(3), 1)],
        ),
        (
            f"SELECT window_time, COUNT(price) AS n FROM {TUMBLE} GROUP BY window_start, window_end "
            "HAVING COUNT(price) > 1",
            [(at(0.999), 3)],
        ),
        (
            f"SELECT UPPER(country) AS c, SUM(price) / COUNT(price) AS mean FROM {TUMBLE} "
            "GROUP BY window_start, window_end, UPPER(country) HAVING SUM(price) > 4",
            [("DE", 3), ("FR", 5), ("IT", 9)],
        ),
        (
            f"SELECT COUNT(*) FILTER (WHERE country = 'de') AS de, SUM(price) FILTER (WHERE country = "
            "'fr') AS fr "
            f"FROM {TUMBLE} GROUP BY window_start, window_end",
            [(0, None), (1, None), (2, 5)],
        ),
        (
            "SELECT country, window_start, COUNT(*) AS n FROM HOP(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '1' SECOND, INTERVAL '2' SECOND) WHERE country = 'it' GROUP BY 1, window_start, "
            "window_end",
            [("it", at(0), 1), ("it", at(1), 1)],
        ),
        (
            "SELECT country, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders PARTITION BY country, "
            "DESCRIPTOR(ts), "
            "INTERVAL '1' SECOND)) GROUP BY country, window_start, window_end",
            [("de", 1), ("de", 2), ("fr", 1), ("fr", 1), ("it", 1)],
        ),
        (
            "SELECT country, TUMBLE_START(ts, INTERVAL '1' SECOND) AS s, COUNT(*) AS n FROM orders "
            "WHERE country = 'de' GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), country",
            [("de", at(0), 2), ("de", at(2), 1)],
        ),
        (
            "SELECT country, COUNT(*) AS n FROM TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), "
            "SIZE => INTERVAL '1' DAY) GROUP BY country, window_start, window_end",
            [("de", 3), ("fr", 2), ("it", 1)],
        ),
        (
            "WITH seconds AS (SELECT window_time AS rt, COUNT(*) AS n "
            f"FROM {TUMBLE} GROUP BY window_start, window_end) "
            "SELECT SUM(n) AS n, COUNT(*) AS seconds FROM TABLE(TUMBLE(TABLE seconds, DESCRIPTOR(rt), "
            "INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
            [(6, 3)],
        ),
    ],
)  # fmt: skip
def test_windows_are_grouped(query: str, wanted: list[tuple[Any, ...]]) -> None:
    assert result(query) == wanted


def test_a_struct_is_taken_apart_by_its_name() -> None:
    bids = pf.from_arrow(pa.table({"bid": pa.array([{"price": 3, "by": {"id": 7}}])}))
    found = StreamExecutionEnvironment.get_execution_environment().sql(
        "SELECT bid.price AS p, b.bid.by.id AS by_id FROM bids AS b", bids=bids
    )
    assert rows_of(found) == [(3, 7)]


def test_groups_without_windows_change() -> None:
    assert result("SELECT country, COUNT(*) AS n, MAX(price) AS top FROM orders GROUP BY country") == [
        ("de", 3, 4),
        ("fr", 2, 5),
        ("it", 1, 9),
    ]
    assert result("SELECT COUNT(DISTINCT country) AS n, SUM(price) AS s FROM orders") == [(3, 22)]
    assert result("SELECT country FROM orders GROUP BY country HAVING COUNT(*) > 1") == [("de",), ("fr",)]


def test_an_aggregate_of_an_aggregate() -> None:
    query = "SELECT AVG(top) AS mean FROM (SELECT country, MAX(price) AS top FROM orders GROUP BY country)"
    assert result(query) == [(6.0,)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.id = p.order_id",
            [(1, 3.0), (3, 1.5), (3, 2.5)],
        ),
        (
            "SELECT o.id, p.paid FROM orders o, payments p WHERE o.id = p.order_id AND p.paid > 2 AND "
            "o.price < 4",
            [(1, 3.0)],
        ),
        (
            "SELECT o.id, p.order_id, p.paid FROM orders o LEFT JOIN payments p ON o.id = p.order_id "
            "WHERE o.id < 3",
            [(1, 1, 3.0), (2, None, None)],
        ),
        (
            "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.id = p.order_id AND p.paid * 2 > o.price",
            [(1, 3.0), (3, 2.5)],
        ),
    ],
)
def test_tables_are_joined(query: str, wanted: list[tuple[Any, ...]]) -> None:
    assert result(query) == wanted


def test_rows_close_in_time_are_joined() -> None:
    query = (
        "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.id = p.order_id "
        "AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND"
    )
    assert result(query) == [(1, 3.0), (3, 1.5)]
    before = query.replace("BETWEEN o.ts AND o.ts +", "BETWEEN o.ts - INTERVAL '1' SECOND AND o.ts -")
    assert result(before.replace("'5' SECOND", "'0' SECOND")) == []
    assert result("SELECT o.id FROM payments p, orders o WHERE o.id = p.order_id AND p.ts - INTERVAL '1' "
                  "SECOND "
                  "<= o.ts AND o.ts <= p.ts") == [(1,), (3,)]  # fmt: skip
    turned = query.replace(
        "BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND", "> o.ts AND o.ts >= p.ts - INTERVAL '1' SECOND"
    )
    assert result(turned) == [(1, 3.0), (3, 1.5)]


def test_windows_are_joined() -> None:
    sums = (
        f"SELECT window_start AS s, window_end AS e, country, SUM(price) AS n FROM {TUMBLE} GROUP BY "
        "country, window_start, window_end"
    )
    most = f"SELECT MAX(n) AS n, s, e FROM ({sums}) GROUP BY s, e"
    query = (
        f"SELECT a.s, a.country FROM ({sums}) a JOIN ({most}) b ON a.s = b.s AND a.e = b.e WHERE a.n >= b.n"
    )
    assert result(query) == [(at(0), "de"), (at(1), "it"), (at(2), "de")]


def test_first_rows_of_each_key() -> None:
    ranked = (
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY price DESC) AS rn FROM orders "
        "WHERE price > 0"
    )
    assert result(f"SELECT country, id, rn FROM ({ranked}) WHERE rn <= 2") == [
        ("de", 1, 2),
        ("de", 3, 1),
        ("fr", 2, 1),
        ("it", 4, 1),
    ]
    assert result(f"SELECT country, id FROM ({ranked}) WHERE rn = 1 AND country <> 'it'") == [
        ("de", 3),
        ("fr", 2),
    ]
    assert result("SELECT id FROM orders WHERE price > 0 ORDER BY price DESC LIMIT 2") == [(2,), (4,)]


def test_first_and_last_of_each_key() -> None:
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY ts {}) AS rn FROM orders"
    assert result(f"SELECT country, id FROM ({ranked.format('')}) WHERE rn = 1") == [
        ("de", 1),
        ("fr", 2),
        ("it", 4),
    ]
    assert result(f"SELECT country, id FROM ({ranked.format('DESC')}) WHERE rn = 1") == [
        ("de", 6),
        ("fr", 5),
        ("it", 4),
    ]
    assert result("SELECT DISTINCT country FROM orders") == [("de",), ("fr",), ("it",)]


def test_aggregates_over_rows_before() -> None:
    query = (
        "SELECT id, SUM(price) OVER (PARTITION BY country ORDER BY ts ROWS BETWEEN 1 PRECEDING AND "
        "CURRENT ROW) AS s "
        "FROM orders"
    )
    assert result(query) == [(1, 3), (2, 5), (3, 7), (4, 9), (5, 5), (6, 5)]


def test_rows_meet_the_version_of_their_time() -> None:
    query = (
        "SELECT p.paid, o.price FROM payments p JOIN orders FOR SYSTEM_TIME AS OF p.ts AS o ON "
        "p.order_id = o.id"
    )
    assert result(query) == [(1.5, 4), (2.5, 4), (3.0, 3)]


def test_state_is_named_by_the_structure_of_the_query() -> None:
    def uids(query: str) -> list[str | None]:
        env = StreamExecutionEnvironment.get_execution_environment()
        session().sql(query)._in(env)
        return [
            env.graph.get(number).uid
            for number in range(1, env.graph.declared + 1)
            if env.graph.get(number).stateful
        ]

    query = f"SELECT country, COUNT(*) AS n FROM {TUMBLE} {{}} GROUP BY country, window_start, window_end"
    plain, filtered = uids(query.format("")), uids(query.format("WHERE price > 3"))
    assert plain == filtered and None not in plain and len(set(plain)) == 2
    assert uids(query.format("").replace("COUNT(*)", "MAX(price)"))[1] != plain[1]


def test_a_query_gives_the_same_in_batch() -> None:
    query = (
        f"SELECT country, window_start, COUNT(*) AS n, SUM(price) AS total FROM {TUMBLE} "
        "GROUP BY country, window_start, window_end"
    )
    found = session()
    found.env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert rows_of(found.sql(query)) == result(query)
