"""Orders in euros: with the exchange rate of their time, and the customer's data as of today.

Rates come as a stream, so each order meets the rate that was valid when it was placed, however late it
arrives.  Customers are a table that Spark reads again every ten minutes, for which it needs a task slot
beside those that the job holds.

python slowly_changing.py

converts a few orders.  For topics that others write to:

penstock topic create orders --partitions 4
penstock topic create rates
penstock topic create converted
penstock run slowly_changing.py ~/.penstock/log customers.parquet
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.log import Json, LogSink, LogSource
from penstock.datastream.enrichment import ReloadedTable, StaticTable, table_join

ORDER = Json(pa.schema([("customer", pa.int64()), ("currency", pa.string()), ("amount", pa.float64())]))
RATE = Json(pa.schema([("currency", pa.string()), ("rate", pa.float64())]))


def convert(orders: DataStream, rates: DataStream, customers: ReloadedTable | StaticTable) -> DataStream:
    """The orders in euros, with the customer's country."""
    by_currency = orders.key_by("currency").temporal_join(rates.key_by("currency"))
    in_euros = by_currency.process(at_rate).name("Rates").uid("rates-join")
    return table_join(in_euros, customers, "customer", with_country, how="left").uid("customers-join")


def at_rate(order: Any, rate: Any) -> dict[str, Any]:
    """An order and the rate of its time."""
    return {"customer": order["customer"], "euros": round(order["amount"] * rate["rate"], 2)}


def with_country(order: dict[str, Any], customer: Any) -> dict[str, Any]:
    """An order and its customer, if known."""
    return order | {"country": customer and customer["country"]}


def customers_of(path: str) -> ReloadedTable:
    """The customers as Spark reads them, anew every ten minutes."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    return ReloadedTable(
        lambda: spark.read.parquet(path).select("id", "country"), "id", Duration.of_minutes(10)
    )


def run(log: str, path: str) -> None:
    """From topics to a topic, for ever."""
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(1000)
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1))
    # Rates come seldom: while there are none, orders must not wait for them.
    seldom = by_time.with_idleness(Duration.of_seconds(10))
    orders = env.from_source(LogSource(log, "orders", ORDER), by_time, "orders").uid("orders")
    rates = env.from_source(LogSource(log, "rates", RATE), seldom, "rates").uid("rates")
    converted = convert(orders, rates, customers_of(path))
    converted.sink_to(LogSink(log, "converted", Json(), "customer")).uid("sink")
    env.execute("slowly-changing")


# --- a first try: times are minutes ---------------------------------------------------------------

ORDERS = [
    {"customer": 1, "currency": "usd", "amount": 10.0, "minute": 15},
    {"customer": 2, "currency": "usd", "amount": 10.0, "minute": 25},
    {"customer": 3, "currency": "gbp", "amount": 10.0, "minute": 12},
]
RATES = [
    {"currency": "usd", "rate": 0.8, "minute": 10},
    {"currency": "gbp", "rate": 1.2, "minute": 10},
    {"currency": "usd", "rate": 0.9, "minute": 20},
]
CUSTOMERS = [{"id": 1, "country": "us"}, {"id": 2, "country": "ca"}]


def first_try() -> None:
    """A few orders and rates, and customers who stay as they are, to the console."""
    env = StreamExecutionEnvironment.get_execution_environment()
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10))
    by_minute = by_time.with_timestamp_assigner(lambda row, _: row["minute"] * 60_000)
    orders, rates = (
        env.from_collection(rows).assign_timestamps_and_watermarks(by_minute) for rows in (ORDERS, RATES)
    )
    convert(orders, rates, StaticTable(CUSTOMERS, "id")).print()
    env.execute("slowly-changing")


if __name__ == "__main__":
    run(*sys.argv[1:3]) if len(sys.argv) > 1 else first_try()
