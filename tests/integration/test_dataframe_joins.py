"""Joins of DataFrames that event time bounds, on the in-process cluster; and windows behind windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.core.errors import ConfigError
from penstock.dataframe import Cumulate, DataFrame, Slide, Tumble, col
from penstock.testing.local import local_cluster

MS = pa.timestamp("ms")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def seconds(moment: dt.datetime | None) -> float | None:
    return None if moment is None else (moment - EPOCH).total_seconds()


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (
            tuple(seconds(it) if isinstance(it, dt.datetime) else it for it in row.values())
            for row in frame.to_pylist()
        ),
        key=str,
    )


def orders() -> DataFrame:
    return pf.from_dict(
        {"id": [1, 2, None, 3], "item": ["pen", "ink", "cap", "nib"], "ts": [1_000, 2_000, 3_000, 9_000]},
        time="ts",
    )


def payments() -> DataFrame:
    return pf.from_dict(
        {"order": [1, 1, None, 4], "sum": [5, 6, 7, 8], "ts": [500, 3_000, 3_000, 9_500]}, time="ts"
    )


MET = [(1, "pen", 1_000, 5, 500), (1, "pen", 1_000, 6, 3_000)]
LEFT_ALONE = [(2, "ink", 2_000, None, None), (3, "nib", 9_000, None, None), (None, "cap", 3_000, None, None)]
RIGHT_ALONE = [(4, None, None, 8, 9_500), (None, None, None, 7, 3_000)]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("inner", MET),
        ("left", MET + LEFT_ALONE),
        ("right", MET + RIGHT_ALONE),
        ("full", MET + LEFT_ALONE + RIGHT_ALONE),
        ("semi", [(1, "pen", 1_000)]),
        ("anti", [row[:3] for row in LEFT_ALONE]),
    ],
)
def test_rows_that_are_close(how: str, wanted: list[Any]) -> None:
    found = orders().join(payments(), on={"id": "order"}, how=how, between=("-1 s", "2 s"))
    assert found.has_event_time
    assert rows_of(found) == sorted(wanted, key=str)
    assert found.columns == (
        ["id", "item", "ts"] if how in ("semi", "anti") else ["id", "item", "ts", "sum", "ts_right"]
    )


def counted(frame: DataFrame, key: str, alias: str, window: Any = None) -> DataFrame:
    kept = frame.filter(col(key).is_not_null).rename({key: "id"})
    return kept.window(window or Tumble("2 s")).group_by("id").agg(pf.count().alias(alias))


WINDOWS = ["window_start", "window_end", "id"]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("inner", [(1, 0.0, 2.0, 1, 1)]),
        ("left", [(1, 0.0, 2.0, 1, 1), (2, 2.0, 4.0, 1, None), (3, 8.0, 10.0, 1, None)]),
        ("right", [(1, 0.0, 2.0, 1, 1), (1, 2.0, 4.0, None, 1), (4, 8.0, 10.0, None, 1)]),
        ("semi", [(1, 0.0, 2.0, 1)]),
        ("anti", [(2, 2.0, 4.0, 1), (3, 8.0, 10.0, 1)]),
    ],
)
def test_rows_of_one_window(how: str, wanted: list[Any]) -> None:
    sold, paid = counted(orders(), "id", "sold"), counted(payments(), "order", "paid")
    found = sold.join(paid, on=WINDOWS, how=how)
    assert rows_of(found) == sorted(wanted, key=str)
    again = found.group_by("window_start", "window_end").agg(pf.count().alias("n"))
    assert sum(row["n"] for row in again.to_pylist()) == len(wanted)


def bids() -> DataFrame:
    times = [100, 900, 1_100, 1_200, 2_500, 2_600, 2_700]
    return pf.from_dict(
        {"auction": [1, 2, 1, 2, 2, 2, 1], "price": [3, 4, 9, 1, 5, 8, 8], "ts": pa.array(times, MS)},
        time="ts",
    )


def test_the_most_wanted_of_each_sliding_window() -> None:
    """As Nexmark's q5 asks: counts per auction, their maximum per window, and who has it."""
    counts = bids().window(Slide("2 s", "1 s")).group_by("auction").agg(pf.count().alias("n"))
    most = counts.group_by("window_start", "window_end").agg(col("n").max.alias("most"))
    found = counts.join(most, on=["window_start", "window_end"]).filter(col("n") >= col("most"))
    wanted = [(1, -1.0, 1.0, 1, 1), (2, -1.0, 1.0, 1, 1), (1, 0.0, 2.0, 2, 2), (2, 0.0, 2.0, 2, 2)]
    wanted += [(2, 1.0, 3.0, 3, 3), (2, 2.0, 4.0, 2, 2)]
    assert rows_of(found) == sorted(wanted, key=str)
    assert found.columns == ["auction", "window_start", "window_end", "n", "most"]


def test_the_highest_of_each_window_and_who_bid_it() -> None:
    """As Nexmark's q7 asks: the rows of a window whose price is its maximum."""
    highest = bids().window(Tumble("1 s")).agg(col("price").max.alias("price"))
    found = bids().join(highest, on="price", between=(0, 999)).select("auction", "price")
    assert rows_of(found) == [(1, 8), (1, 9), (2, 4), (2, 8)]


def test_windows_follow_windows_under_other_names() -> None:
    counts = bids().window(Tumble("1 s")).group_by("auction").agg(pf.count().alias("n"))
    named = counts.rename({"window_start": "a", "window_end": "b"}).filter(col("n") > 0)
    sums = named.group_by("b", "a", (col("auction") % 2).alias("odd")).agg(col("n").sum.alias("n"))
    assert sums.columns == ["b", "a", "odd", "n"]
    wanted = [(1.0, 0.0, 0, 1), (1.0, 0.0, 1, 1), (2.0, 1.0, 0, 1), (2.0, 1.0, 1, 1), (3.0, 2.0, 0, 2)]
    assert rows_of(sums) == [*wanted, (3.0, 2.0, 1, 1)]
    every = sums.window(Tumble("1 min")).agg(col("n").sum.alias("n"))
    assert [row[2] for row in rows_of(every)] == [7]


def test_windows_that_grow() -> None:
    found = bids().window(Cumulate("3 s", "1 s")).group_by("auction").agg(col("price").sum.alias("s"))
    wanted = [(1, 0.0, 1.0, 3), (1, 0.0, 2.0, 12), (1, 0.0, 3.0, 20)]
    wanted += [(2, 0.0, 1.0, 4), (2, 0.0, 2.0, 5), (2, 0.0, 3.0, 18)]
    assert rows_of(found) == wanted


def test_null_is_a_group() -> None:
    found = orders().window(Tumble("1 min")).group_by("id").agg(col("ts").min.alias("first"))
    assert [(row[0], row[3]) for row in rows_of(found)] == [(1, 1_000), (2, 2_000), (3, 9_000), (None, 3_000)]


def test_the_first_rows_of_each_window() -> None:
    windows = bids().window(Tumble("2 s"))
    two = windows.top_n(2, by=[(col("price"), "desc"), "ts"], rank="place")
    assert [row[:4] for row in rows_of(two)] == [
        (1, 8, 2.7, 2),
        (1, 9, 1.1, 1),
        (2, 4, 0.9, 2),
        (2, 8, 2.6, 1),
    ]
    cheapest = windows.top_n(1, by=["price", "ts"], partition_by="auction").select("auction", "price")
    assert rows_of(cheapest) == [(1, 3), (1, 8), (2, 1), (2, 5)]
    counts = windows.group_by("auction").agg(pf.count().alias("n"))
    best = counts.top_n(1, by=(col("n") * 10, "desc"), partition_by=["window_start", "window_end"])
    assert [row[0] for row in rows_of(best.filter(col("n") > 2))] == []
    assert len(rows_of(best)) == 2


def test_one_row_of_each() -> None:
    windows = bids().window(Tumble("2 s"))
    first = windows.drop_duplicates("auction").select("auction", "price")
    last = windows.drop_duplicates("auction", keep="last").select("auction", "price")
    assert rows_of(first) == [(1, 3), (1, 8), (2, 4), (2, 5)]
    assert rows_of(last) == [(1, 8), (1, 9), (2, 1), (2, 8)]
    cheap = windows.drop_duplicates("auction", order_by="price").select("auction", "price")
    assert rows_of(cheap) == [(1, 3), (1, 8), (2, 1), (2, 5)]


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        ({}, [3, 12, 20, 4, 5, 10, 18]),
        ({"rows": 1}, [3, 12, 17, 4, 5, 6, 13]),
        ({"range": "1 s"}, [3, 12, 8, 4, 5, 5, 13]),
        ({"rows": "unbounded", "order_by": "ts"}, [3, 12, 20, 4, 5, 10, 18]),
    ],
)
def test_sums_beside_rows(frame: dict[str, Any], wanted: list[int]) -> None:
    found = (
        bids().over("auction", **frame).agg(col("price").sum.alias("s"), (col("price").max + 0).alias("m"))
    )
    assert found.columns == ["auction", "price", "ts", "s", "m"]
    assert [row[3] for row in sorted(rows_of(found), key=lambda row: (row[0], row[2]))] == wanted


def test_versions_of_their_time() -> None:
    prices = pf.from_dict({"id": [1, 1, 2], "price": [10, 12, 7], "ts": [0, 2_000, 8_000]}, time="ts")
    found = orders().join_temporal(prices, on="id", how="left").select("id", "price")
    assert rows_of(found) == [(1, 10), (2, None), (3, None), (None, None)]
    assert rows_of(orders().join_temporal(prices, on="id").select("id", "price")) == [(1, 10)]


def test_rows_of_a_table_that_is_at_hand() -> None:
    names = pf.from_dict({"key": [1, 1, 3, None], "name": ["ann", "amy", "cid", "nobody"]})
    found = orders().join_lookup(names, on=[("id", "key")])
    assert found.has_event_time
    assert rows_of(found.select("id", "name")) == [(1, "amy"), (1, "ann"), (3, "cid")]
    left = orders().join_lookup({"item": ["pen", "cap"], "n": [1, 2]}, on="item", how="left")
    assert rows_of(left.select("item", "n")) == [("cap", 2), ("ink", None), ("nib", None), ("pen", 1)]
    windows = found.window(Tumble("1 min")).agg(pf.count().alias("n"))
    assert rows_of(windows.select("n")) == [(3,)]


def test_windows_of_the_clock_show_all_rows_and_have_no_event_time() -> None:
    found = bids().window(Tumble("1 h", processing_time=True)).group_by("auction").agg(pf.count().alias("n"))
    assert not found.has_event_time
    totals: dict[int, int] = {}
    for row in found.to_pylist():
        totals[row["auction"]] = totals.get(row["auction"], 0) + row["n"]
    assert totals == {1: 3, 2: 4}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: orders().join(payments(), on="id", between=(0, 1)), "there is no column 'id'"),
        (lambda: orders().join(payments(), on={"item": "sum"}, between=(0, 1)), "cannot equal column 'sum'"),
        (lambda: orders().join(payments(), on={"id": "order"}, how="cross"), "is no kind of join"),
        (lambda: orders().join(payments(), on={"id": "order"}, between=(5, 1)), "is empty"),
        (
            lambda: orders().join(payments(), on={"id": "order"}, between="1 s"),  # type: ignore[arg-type]
            "two lengths of time",
        ),
        (
            lambda: orders().join(payments(), on={"id": "order"}, between=("x", 1)),
            "cannot read 'x' as a length of time",
        ),
        (lambda: orders().join(payments(), on=[], between=(0, 1)), "at least one column"),
        (
            lambda: orders().join(payments(), on=[3], between=(0, 1)),  # type: ignore[list-item]
            "not on 3",
        ),
        (
            lambda: orders().join(payments(), on={"id": "order"}, between=(0, 1), ttl="1 h"),
            "leave ttl= out",
        ),
        (lambda: pf.range(3).join(orders(), on="id", between=(0, 1)), "the left one has none"),
        (
            lambda: orders().with_column("ts_right", col("ts")).join(orders(), on="id", between=(0, 1)),
            "two columns 'ts_right'",
        ),
        (lambda: orders().join_temporal(payments(), on={"id": "order"}, how="full"), "inner or left"),
        (lambda: orders().join_lookup(payments(), on={"id": "order"}, how="right"), "inner or left"),
        (lambda: orders().join_lookup("names", on="id"), "cannot look rows up in str"),
        (lambda: orders().over("id", order_by="item"), "goes in order of event time"),
        (lambda: orders().over("id", rows=1, range="1 s"), "not both"),
        (lambda: pf.range(3).over("id"), "goes in order of event time"),
        (lambda: orders().window(Tumble("1 s")).top_n(0, by="id"), "from 1 on"),
        (
            lambda: orders().rename({"item": "$time"}).window(Tumble("1 s")).top_n(1, by="id"),
            "names such as '.time' are taken",
        ),
        (lambda: orders().rename({"item": "__pane"}).over("id").agg(pf.count()), "are taken by the engine"),
        (lambda: orders().window(pf.Session("1 s")).top_n(1, by="id"), "not Session"),
        (lambda: counted(orders(), "id", "n").drop_duplicates(*WINDOWS, keep="last"), "say order_by"),
        (lambda: orders().window(Cumulate("1 min", "7 s")).agg(pf.count()), "does not divide"),
        (
            lambda: orders().window(Tumble("1 s", processing_time=True), "1 s").agg(pf.count()),
            "nothing is late",
        ),
        (
            lambda: (
                orders()
                .window(Tumble("1 s", processing_time=True))
                .agg(pf.count().alias("n"))
                .window(Tumble("1 s"))
            ),
            "windows need event time",
        ),
    ],
)
def test_refused_when_it_is_written(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()
