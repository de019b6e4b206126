"""Columns of types that frames at hand have and tables do not declare, and times with microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.sql import Session, SqlError
from penstock.testing.local import local_cluster
from tests.sql_kit import rows_of

WORDS = ["a", "b", None, "a"]
T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "n": pa.array([0, 5, None, 4], pa.int64()),
        "word": pa.array(WORDS),
        "code": pa.array(WORDS).dictionary_encode(),
        "short": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), ["a", "b"]),
        "large": pa.array(WORDS, pa.large_string()),
        "ts": pa.array([0, 1000, 2000, 3000], pa.timestamp("ms")),
    }
)
OTHERS = [(one, other) for one in T.schema.names[2:6] for other in T.schema.names[2:6]]
SECOND = 1_000_000
LEFT = pa.table({"k": ["a", "b"], "at": pa.array([SECOND + 500, 7 * SECOND], pa.timestamp("us"))})
RIGHT = pa.table(
    {
        "k": ["a"] * 4,
        "at": pa.array([SECOND + n for n in (100, 500, 700, SECOND + 600)], pa.timestamp("us")),
        "n": [1, 2, 3, 4],
    }
)


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def found(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    session = Session()
    for name, table in tables.items():
        session.register(name, pf.from_arrow(table, time="ts" if "ts" in table.schema.names else "at"))
    return rows_of(session.sql(query))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_texts_meet_however_they_are_kept(one: str, other: str) -> None:
    joined = f"SELECT a.id AS i, b.id AS j FROM t a JOIN t b ON a.{one} = b.{other} AND a.id < b.id"
    assert found(joined, t=T) == [(1, 4)]
    assert found(f"SELECT id FROM t WHERE {one} IN (SELECT {other} FROM t WHERE id = 4)", t=T) == [(1,), (4,)]
    assert found(f"SELECT {one} FROM t UNION SELECT {other} FROM t", t=T) == [("a",), ("b",), (None,)]
    merged = f"SELECT COALESCE({one}, {other}, 'z') AS w, COUNT(*) AS c FROM t GROUP BY 1"
    assert found(merged, t=T) == [("a", 2), ("b", 1), ("z", 1)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT id FROM t WHERE n <> 0 AND 10 / n > 1", [(2,), (4,)]),
        ("SELECT id FROM t WHERE n = 0 OR 10 / n > 2", [(1,)]),
        ("SELECT id FROM t WHERE id IN (1, 2.0, 3e0)", [(1,), (2,), (3,)]),
        ("SELECT a FROM (VALUES (9007199254740993), (1e0)) AS v(a)", [(1.0,), (9007199254740992.0,)]),
        ("SELECT NULLIF(id + 9007199254740992, 1e0) - id AS a FROM t WHERE id = 1", [(9007199254740992,)]),
    ],
)
def test_a_query_gives(query: str, wanted: list[tuple[Any, ...]]) -> None:
    assert found(query, t=T) == wanted


WITHIN = [
    ("r.at BETWEEN l.at AND l.at + INTERVAL '1' SECOND", [2, 3]),
    ("r.at > l.at AND r.at < l.at + INTERVAL '1' SECOND", [3]),
    ("l.at < r.at AND l.at + INTERVAL '2' SECOND > r.at", [3, 4]),
    ("r.at >= l.at - INTERVAL '1' SECOND AND r.at <= l.at", [1, 2]),
]


@pytest.mark.parametrize(("condition", "wanted"), WITHIN, ids=[it[0] for it in WITHIN])
def test_bounds_of_time_hold_within_a_millisecond(condition: str, wanted: list[int]) -> None:
    rows = found(f"SELECT r.n FROM l JOIN r ON l.k = r.k AND {condition}", l=LEFT, r=RIGHT)
    assert rows == [(it,) for it in wanted]


def test_rows_that_met_others_have_no_event_time() -> None:
    """They come when both are there, however late that is."""
    met = "WITH a AS (SELECT * FROM t WHERE id IN (SELECT n FROM t)) "
    on = "a.id = t.id AND a.ts BETWEEN t.ts AND t.ts + INTERVAL '1' SECOND"
    assert found(f"{met} SELECT a.id FROM a JOIN t ON {on}", t=T) == [(4,)]
    assert found(f"{met} SELECT id FROM a WHERE ts > TIMESTAMP '1970-01-01 00:00:00'", t=T) == [(4,)]
    window = "TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    with pytest.raises(SqlError, match="ts is not the event time of its rows"):
        found(f"{met} SELECT COUNT(*) AS c FROM {window}", t=T)
