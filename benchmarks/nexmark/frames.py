"""The queries as DataFrames: those of one table.  Each gets a function that gives tables by name."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

import penstock.dataframe as pf
from penstock.dataframe import DataFrame, Expression, Session, col, lit, udf, when

Tables = Callable[[str], DataFrame]
"""``person``, ``auction`` or ``bid``."""
Query = Callable[[Tables], DataFrame]

BID = ("auction", "bidder", "price", "dateTime", "extra")
_ID_IN_URL = r"(&|^)channel_id=([^&]*)"
_HOT_CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def in_euros() -> Expression:
    """A price in another currency, exactly."""
    return lit(Decimal("0.908")) * col("price")


def q0(tables: Tables) -> DataFrame:
    """Bids as they come."""
    return tables("bid").select(*BID)


def q1(tables: Tables) -> DataFrame:
    """Prices in another currency."""
    return tables("bid").select("auction", "bidder", in_euros().alias("price"), "dateTime", "extra")


def q2(tables: Tables) -> DataFrame:
    """Bids for certain auctions."""
    return tables("bid").filter(col("auction") % 123 == 0).select("auction", "price")


def q10(tables: Tables) -> DataFrame:
    """Bids with the folders they are filed in."""
    day, minute = col("dateTime").date_format("yyyy-MM-dd"), col("dateTime").date_format("HH:mm")
    return tables("bid").select(*BID, day.alias("dt"), minute.alias("hm"))


def q11(tables: Tables) -> DataFrame:
    """Bids of a user in each session."""
    sessions = tables("bid").window(Session("10 s")).group_by("bidder").agg(pf.count().alias("bid_count"))
    begun, ended = col("window_start").alias("starttime"), col("window_end").alias("endtime")
    return sessions.select("bidder", "bid_count", begun, ended)


def count_char(text: pa.Array, letter: pa.Scalar) -> pa.Array:
    """How often a letter is in a text: a function of the user's own, on columns."""
    return pc.count_substring(text, letter.as_py()).cast(pa.int64())


def q14(tables: Tables) -> DataFrame:
    """A calculation with a function of our own."""
    hour = col("dateTime").extract("hour")
    kind = when((hour >= 8) & (hour <= 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime")
    counted = udf(count_char, result_type=pa.int64(), func_type="arrow")
    rows = tables("bid").filter((in_euros() > 1_000_000) & (in_euros() < 50_000_000))
    return rows.select(
        "auction",
        "bidder",
        in_euros().alias("price"),
        kind.otherwise("otherTime").alias("bidTimeType"),
        "dateTime",
        "extra",
        counted(col("extra"), lit("c")).alias("c_counts"),
    )


def q21(tables: Tables) -> DataFrame:
    """Each bid's channel, as a number."""
    low, found = col("channel").lower_case, col("url").regexp_extract(_ID_IN_URL, 2)
    (name, number), *more = _HOT_CHANNELS.items()
    known = when(low == name, number)
    for name, number in more:
        known = known.when(low == name, number)
    rows = tables("bid").filter(found.is_not_null | low.in_(*_HOT_CHANNELS))
    return rows.select("auction", "bidder", "price", "channel", known.otherwise(found).alias("channel_id"))


def q22(tables: Tables) -> DataFrame:
    """The folders of each bid's page."""
    folders = [col("url").split_index("/", at).alias(f"dir{at - 2}") for at in (3, 4, 5)]
    return tables("bid").select("auction", "bidder", "price", "channel", *folders)
