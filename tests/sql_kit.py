"""For tests of SQL: a session with two tables, and rows as sorted tuples."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock.dataframe as pf
from penstock.dataframe import DataFrame
from penstock.sql import Session


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Its rows, sorted."""
    return sorted((tuple(row.values()) for row in frame.to_pylist()), key=str)


def orders() -> DataFrame:
    """Six orders with event times, none of them null."""
    return pf.from_dict(
        {
            "id": [1, 2, 3, 4, 5, 6],
            "country": ["de", "fr", "de", "it", "fr", "de"],
            "price": pa.array([3, 5, 4, 9, None, 1], pa.int64()),
            "ts": pa.array([100, 200, 900, 1_500, 2_100, 2_200], pa.timestamp("ms")),
        },
        time="ts",
    )


def payments() -> DataFrame:
    """Payments of some of these orders."""
    return pf.from_dict(
        {
            "order_id": [1, 3, 3, 9],
            "paid": [3.0, 1.5, 2.5, 7.0],
            "ts": pa.array([300, 1_000, 8_000, 9_000], pa.timestamp("ms")),
        },
        time="ts",
    )


def session() -> Session:
    """A session that knows both."""
    found = Session()
    found.register("orders", orders(), time="ts")
    found.register("payments", payments(), time="ts")
    return found
