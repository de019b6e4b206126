"""Graphs of DataFrames whose results change.  What is compared is what all changes add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import penstock.dataframe as pf
from penstock.common import RowKind, WatermarkStrategy
from penstock.core.changes import CHANGE, DELETE, UPDATE_AFTER
from penstock.dataframe import DataFrame, col, lit
from penstock.dataframe.regular_join import regular_join
from penstock.dataframe.upserted import upserted
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing import SimSink

SCHEMA = pa.schema({"id": pa.int64(), "user": pa.string(), "price": pa.int64()})


def make_bids(index: Any) -> pa.RecordBatch:
    users = pa.array([None if i % 11 == 7 else f"u{i * 7919 % 5}" for i in index.tolist()], pa.string())
    return pa.record_batch({"id": index, "user": users, "price": index * 7919 % 101}, schema=SCHEMA)


def make_users(index: Any) -> pa.RecordBatch:
    users = pa.array([f"u{i % 6}" for i in index.tolist()], pa.string())
    return pa.record_batch({"person": users, "state": np.asarray(index) * 31 % 4})


def frame(env: Env, name: str, make: Any, count: int, rate: float) -> DataFrame:
    source = DataGeneratorSource(make, count, rate, columns=True)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name)
    return pf.from_data_stream(stream, make(np.arange(1)).schema)


def signed(row: Any) -> tuple[int, str]:
    added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    return (1 if added else -1, repr(list(row)))


def left(rows: list[Any]) -> list[Any]:
    """How often each row is there in the end."""
    counts: Counter[str] = Counter()
    for sign, text in rows:
        counts[text] += sign
    return sorted((text, count) for text, count in counts.items() if count)


def out(env: Env, result: DataFrame) -> None:
    changes = result.to_changelog_stream(env)
    changes.map(signed).sink_to(SimSink("out", view=left)).uid("out")


def changing_groups(env: Env) -> None:
    """Groups of groups: the second takes back what the first has replaced."""
    bids = frame(env, "bids", make_bids, 160, 300.0)
    users = bids.group_by("user").agg(
        pf.count().alias("bids"),
        col("price").max.alias("most"),
        col("price").count.distinct.filter(col("price") > 20).alias("prices"),
    )
    best = users.group_by((col("most") % 7).alias("digit"))
    out(env, best.agg(pf.count().alias("n"), col("bids").sum.alias("bids"), col("user").max.alias("user")))


def changing_top(env: Env) -> None:
    """The best bids of each user, then the lowest of these: most of them are taken back before the end."""
    bids = frame(env, "bids", make_bids, 160, 300.0)
    best = bids.top_n(2, [col("price").desc(), "id"], "user", rank="rank")
    out(env, best.top_n(3, ["price", "id"]))


def changing_latest(env: Env) -> None:
    """The highest of the latest bids: prices go up and down, so that who was passed over comes back."""
    bids = frame(env, "bids", make_bids, 160, 300.0).select("id", "price", (col("id") % 9).alias("seat"))
    latest = bids.drop_duplicates("seat", keep="last", order_by="id")
    out(env, latest.top_n(3, [col("price").desc(), "id"], rank="rank"))


def changing_join(env: Env) -> None:
    """Users with their bids so far: one side changes, and who has none is there, too."""
    bids = frame(env, "bids", make_bids, 120, 300.0).group_by("user").agg(col("price").sum.alias("total"))
    users = frame(env, "users", make_users, 40, 90.0)
    out(env, regular_join(users, bids, [("person", "user")], "full"))


def changing_semi(env: Env) -> None:
    """Latest bids whose user is listed, and those whose user is not: users are struck off the list again."""
    bids = frame(env, "bids", make_bids, 120, 300.0)
    latest = bids.with_column("seat", col("id") % 9).drop_duplicates("seat", keep="last", order_by="id")
    listed = bids.group_by("user").agg(col("price").sum.alias("total")).filter(col("total") % 3 == 0)
    found, missing = (latest.join(listed, on="user", how=how) for how in ("semi", "anti"))
    out(env, found.with_column("listed", lit(True)).union(missing.with_column("listed", lit(False))))


def lasting_pairs(env: Env) -> None:
    """Rows that stay on both sides."""
    bids, users = frame(env, "bids", make_bids, 80, 200.0), frame(env, "users", make_users, 30, 70.0)
    out(env, bids.join(users, on={"user": "person"}))


def first_rows(env: Env) -> None:
    bids = frame(env, "bids", make_bids, 200, 400.0).select("user", (col("price") % 10).alias("digit"))
    out(env, bids.drop_duplicates().group_by("user").agg(pf.count().alias("digits")))


def make_stock(index: Any) -> pa.RecordBatch:
    """What each of six seats has, again and again; every fifth record says that it is empty.

    All records of a seat are of one split, whose reader passes them on in order, as partitions of Kafka do.
    """
    numbers = np.asarray(index)
    gone = numbers % 5 == 3
    prices = pa.array(numbers * 7919 % 11, pa.int8(), mask=gone).cast(pa.decimal128(6, 2))
    kinds = np.where(gone, DELETE, UPDATE_AFTER).astype(np.int8)
    return pa.record_batch({"seat": numbers % 6, "price": prices, CHANGE: kinds})


def changing_upserts(env: Env) -> None:
    """A source of rows that replace each other, added up: all old rows are taken back."""
    source = DataGeneratorSource(make_stock, 160, 300.0, columns=True)

    def build(env: Env) -> Any:
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "stock").uid("stock")

    schema = pa.schema({"seat": pa.int64(), "price": pa.decimal128(6, 2)})
    stock = upserted(build, schema, ["seat"], env, "stock")
    price = col("price")
    sums = price.sum.alias("sum"), price.sum.distinct.alias("different"), price.avg.alias("mean")
    out(env, stock.group_by((col("seat") % 4).alias("row")).agg(pf.count().alias("seats"), *sums))


CHANGING_GRAPHS: dict[str, Callable[[Env], None]] = {
    "changing_groups": changing_groups,
    "changing_top": changing_top,
    "changing_latest": changing_latest,
    "changing_join": changing_join,
    "changing_semi": changing_semi,
    "changing_pairs": lasting_pairs,
    "changing_first": first_rows,
    "changing_upserts": changing_upserts,
}
