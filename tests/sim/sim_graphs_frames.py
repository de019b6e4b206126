"""DataFrames in the simulator: joins in time, rows of windows, windows of windows and of the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import penstock.dataframe as pf
from penstock.common import WatermarkStrategy
from penstock.dataframe import Cumulate, DataFrame, Session, Slide, Tumble, col, when
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing import SimSink

KEYS = 5
BOUND = 50
SCHEMA = pa.schema({"user": pa.int64(), "n": pa.int64(), "ts": pa.int64()})


def make_orders(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"user": index % KEYS, "n": index, "ts": index * 5 + index * 7919 % 5 * 9})


def make_payments(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"user": index % KEYS, "n": index, "ts": index * 7 + index * 7919 % 4 * 11})


def frame(env: Env, name: str, make: Any, count: int, rate: float) -> DataFrame:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(BOUND).with_timestamp_column("ts")
    source = DataGeneratorSource(make, count, rate, columns=True)
    return pf.from_data_stream(env.from_source(source, strategy, name).uid(name), SCHEMA, has_event_time=True)


def orders(env: Env) -> DataFrame:
    return frame(env, "orders", make_orders, 80, 130.0)


def payments(env: Env) -> DataFrame:
    return frame(env, "payments", make_payments, 50, 85.0)


def written(found: DataFrame, **options: Any) -> None:
    found.to_data_stream().sink_to(SimSink("out", **options)).uid("out")


def close_payments(env: Env) -> None:
    written(orders(env).join(payments(env), on="user", how="semi", between=(-60, 120)))


def no_close_payments(env: Env) -> None:
    written(orders(env).join(payments(env), on="user", how="anti", between=(-4, 0)))


def windows_of_windows(env: Env) -> None:
    counts = orders(env).window(Slide(90, 30)).group_by("user").agg(col("n").sum.alias("s"))
    most = counts.group_by("window_start", "window_end").agg(col("s").max.alias("most"))
    written(counts.join(most, on=["window_start", "window_end"]).filter(col("s") == col("most")))


def growing_windows(env: Env) -> None:
    different = (col("n") % 4).count.distinct.filter(col("n") % 3 > 0).alias("d")
    written(orders(env).window(Cumulate(120, 30)).group_by("user").agg(col("n").sum.alias("s"), different))


def sessions(env: Env) -> None:
    """Of users, of whom one is not known."""
    known = when(col("user") < 4, col("user")).otherwise(None)
    visits = orders(env).filter(col("n") % 7 < 4).with_column("who", known)
    prices = (col("n") % 3).cast(pa.decimal128(5, 2))
    sums = col("n").sum.alias("s"), prices.sum.alias("p"), prices.sum.distinct.alias("d")
    written(visits.window(Session(40)).group_by("who").agg(*sums, pf.count().alias("c")))


def looked_up(env: Env) -> None:
    """What a table says of what is left behind a window of each user."""
    table = pa.table({"user": [0, 1, 1, 4], "name": ["a", "b", "c", "d"]})
    latest = orders(env).window(Tumble(60)).drop_duplicates("user", keep="last", order_by="n")
    written(latest.join_lookup(table, on="user", how="left"))


def first_of_windows(env: Env) -> None:
    found = (
        orders(env).window(Slide(90, 30)).top_n(2, by=(col("n"), "desc"), partition_by="user", rank="place")
    )
    written(found)


def sums_so_far(env: Env) -> None:
    found = orders(env).over("user").agg(col("n").sum.alias("s"), col("n").max.alias("m"))
    written(found)


def sums_of_a_while(env: Env) -> None:
    ranges = orders(env).over("user", range=60).agg(col("n").sum.alias("s"))
    written(ranges.over("user", rows=2).agg(col("s").min.alias("m")))


def totals(rows: list[Any]) -> list[Any]:
    """What is in which window of the clock depends on timing; what is in all of them does not."""
    found: Counter[Any] = Counter()
    for row in rows:
        found[row[0]] += row[1]
    return sorted(found.items())


def windows_of_the_clock(env: Env) -> None:
    clock = orders(env).window(Tumble(50, processing_time=True)).group_by("user").agg(col("n").sum.alias("s"))
    written(clock.select("user", "s"), view=totals)


FRAME_GRAPHS: dict[str, Callable[[Env], None]] = {
    "frames_semi_join": close_payments,
    "frames_anti_join": no_close_payments,
    "frames_windows_of_windows": windows_of_windows,
    "frames_growing_windows": growing_windows,
    "frames_sessions": sessions,
    "frames_looked_up": looked_up,
    "frames_first_of_windows": first_of_windows,
    "frames_sums_so_far": sums_so_far,
    "frames_sums_of_a_while": sums_of_a_while,
    "frames_windows_of_the_clock": windows_of_the_clock,
}
