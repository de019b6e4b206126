"""The queries as DataFrames: those with joins, and those whose results change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock.dataframe as pf
from benchmarks.nexmark.frames import Tables
from benchmarks.nexmark.tables import SIDE_ROWS, side_input
from penstock.dataframe import DataFrame, Expression, Slide, Tumble, col

WINDOW = ("window_start", "window_end")


def q3(tables: Tables) -> DataFrame:
    """Who in three states sells things of a category."""
    people = tables("person").filter(col("state").in_("OR", "ID", "CA"))
    people = people.select(col("id").alias("seller"), "name", "city", "state")
    items = tables("auction").filter(col("category") == 10).select("id", "seller")
    return items.join(people, on="seller").select("name", "city", "state", "id")


def _bids_in_time(items: DataFrame, tables: Tables, *columns: str) -> DataFrame:
    """Auctions with the bids that came while they were open."""
    named = (col(name).alias(f"bid_{name}") for name in columns)
    bids = tables("bid").select(col("auction").alias("id"), *named)
    found = items.join(bids, on="id")
    return found.filter(col("bid_dateTime").between(col("dateTime"), col("expires")))


def q4(tables: Tables) -> DataFrame:
    """The average closing price of each category."""
    items = tables("auction").select("id", "category", "dateTime", "expires")
    closed = _bids_in_time(items, tables, "price", "dateTime").group_by("id", "category")
    final = closed.agg(col("bid_price").max.alias("final"))
    return final.group_by("category").agg(col("final").cast(pa.float64()).avg.alias("price"))


def q5(tables: Tables) -> DataFrame:
    """The auctions with most bids in the last ten seconds, every two."""
    counted = tables("bid").window(Slide("10 s", "2 s")).group_by("auction").agg(pf.count().alias("num"))
    most = counted.group_by(*WINDOW).agg(col("num").max.alias("most"))
    found = counted.join(most, on=list(WINDOW))
    return found.filter(col("num") >= col("most")).select("auction", "num")


def q7(tables: Tables) -> DataFrame:
    """The highest bids of each ten seconds.

    A window's result has its last millisecond as its time; bids of the one behind it belong to it, too.
    """
    bids = tables("bid").select("auction", "price", "bidder", "dateTime", "extra")
    highest = tables("bid").window(Tumble("10 s")).agg(col("price").max.alias("price"))
    found = bids.join(highest.select("price"), on="price", between=("-1 ms", "9999 ms"))
    return found.select("auction", "price", "bidder", "dateTime", "extra")


def q8(tables: Tables) -> DataFrame:
    """People who came and sold something within the same ten seconds."""
    came = tables("person").window(Tumble("10 s")).group_by("id", "name").agg(pf.count().alias("came"))
    seller = col("seller").alias("id")
    sold = tables("auction").window(Tumble("10 s")).group_by(seller).agg(pf.count().alias("sold"))
    return came.join(sold, on=["id", *WINDOW]).select("id", "name", "window_start")


def q9(tables: Tables) -> DataFrame:
    """The winning bid of each auction."""
    rows = _bids_in_time(tables("auction"), tables, "bidder", "price", "dateTime", "extra")
    best = rows.top_n(1, by=[col("bid_price").desc(), col("bid_dateTime")], partition_by=("id",))
    bid = [col(f"bid_{name}").alias(name) for name in ("bidder", "price")]
    auction = col("id").alias("auction")
    return best.select(*tables("auction").columns, auction, *bid, "bid_dateTime", "bid_extra")


def q12(tables: Tables) -> DataFrame:
    """Bids of a user in ten seconds of the clock."""
    windows: Any = Tumble("10 s", processing_time=True)  # type: ignore[call-arg]
    counted = tables("bid").window(windows).group_by("bidder").agg(pf.count().alias("bid_count"))
    begun, ended = col("window_start").alias("starttime"), col("window_end").alias("endtime")
    return counted.select("bidder", "bid_count", begun, ended)


def q13(tables: Tables) -> DataFrame:
    """Bids with what a table at hand says."""
    bids = tables("bid").with_column("key", col("auction") % SIDE_ROWS)
    found = bids.join_lookup(side_input(), on="key")
    return found.select("auction", "bidder", "price", "dateTime", "value")


def _ranks(counted: Expression, name: str) -> list[Expression]:
    price = col("price")
    low, high = price < 10_000, price >= 1_000_000
    ranks = (low, (price >= 10_000) & (price < 1_000_000), high)
    found = [counted.filter(rank).alias(f"rank{n}_{name}") for n, rank in enumerate(ranks, 1)]
    return [counted.alias(f"total_{name}"), *found]


def _day() -> Expression:
    return col("dateTime").date_format("yyyy-MM-dd").alias("day")


def _all_ranks() -> list[Expression]:
    people, items = col("bidder").count.distinct, col("auction").count.distinct
    return [*_ranks(pf.count(), "bids"), *_ranks(people, "bidders"), *_ranks(items, "auctions")]


def q15(tables: Tables) -> DataFrame:
    """Each day's bids, bidders and auctions, by the height of the bid."""
    return tables("bid").group_by(_day()).agg(*_all_ranks())


def q16(tables: Tables) -> DataFrame:
    """The same for each channel, with the latest minute."""
    minute = col("dateTime").date_format("HH:mm").max.alias("minute")
    return tables("bid").group_by("channel", _day()).agg(minute, *_all_ranks())


def q17(tables: Tables) -> DataFrame:
    """Each auction's bids of a day."""
    price = col("price")
    return (
        tables("bid")
        .group_by("auction", _day())
        .agg(
            *_ranks(pf.count(), "bids"),
            price.min.alias("min_price"),
            price.max.alias("max_price"),
            price.cast(pa.float64()).avg.alias("avg_price"),
            price.sum.alias("sum_price"),
        )
    )


def q18(tables: Tables) -> DataFrame:
    """The last bid of each bidder for each auction."""
    return tables("bid").drop_duplicates("bidder", "auction", keep="last", order_by="dateTime")


def q19(tables: Tables) -> DataFrame:
    """The ten highest bids of each auction."""
    return tables("bid").top_n(10, by=col("price").desc(), partition_by=("auction",), rank="place")


def q20(tables: Tables) -> DataFrame:
    """Bids with their auctions, of one category."""
    items = tables("auction").filter(col("category") == 10)
    items = items.rename({"id": "auction", "dateTime": "auction_dateTime", "extra": "auction_extra"})
    return tables("bid").join(items, on="auction")
