"""Graphs of streams together: joins of all kinds, and requests to a system that takes its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from sim_graphs_rocks import on_disk

from penstock.common import WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, ProcessJoinFunction
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.testing import SimSink, SimSource

KEYS = 5
BOUND = 50
Event = tuple[int, int, str]


def events(name: str, split: int, each: int, step: int = 10) -> list[Event]:
    """(key, time, name), out of order by less than the bound."""
    return [(i % KEYS, i * step + (i * 7919 % 5) * 9, f"{name}{split}-{i}") for i in range(each)]


def stream(env: Env, name: str, each: int, rate: float, step: int = 10) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(BOUND)
    timed = strategy.with_timestamp_assigner(lambda event, _: event[1])
    source = SimSource([events(name, split, each, step) for split in range(2)], rate=rate)
    return env.from_source(source, timed, name).uid(name)


def key(event: Event) -> int:
    return event[0]


class Describe(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield (left and left[2], right and right[2], ctx.get_timestamp())


def interval_join(env: Env) -> None:
    orders, payments = stream(env, "order", 60, 100), stream(env, "payment", 60, 80)
    joined = orders.key_by(key).interval_join(payments.key_by(key)).between(-60, 120)
    joined.process(Describe()).uid("join").sink_to(SimSink("out")).uid("out")


def interval_join_full(env: Env) -> None:
    orders, payments = stream(env, "order", 60, 100), stream(env, "payment", 30, 40, step=25)
    joined = orders.key_by(key).interval_join(payments.key_by(key), how="full").between(-5, 12)
    joined.process(Describe()).uid("join").sink_to(SimSink("out")).uid("out")


def names(left: Event | None, right: Event | None) -> tuple[Any, Any]:
    return (left and left[2], right and right[2])


def window_join(env: Env) -> None:
    orders, payments = stream(env, "order", 60, 100), stream(env, "payment", 40, 60, step=16)
    joined = orders.join(payments, how="full").where(key).equal_to(key)
    windows = joined.window(TumblingEventTimeWindows.of(70))
    windows.apply(names).uid("join").sink_to(SimSink("out")).uid("out")


def gathered(lefts: list[Event], rights: list[Event]) -> list[Any]:
    times = [event[1] for event in (*lefts, *rights)]
    return [((lefts or rights)[0][0], min(times), max(times), len(lefts), len(rights))]


def co_group_sessions(env: Env) -> None:
    orders, payments = stream(env, "order", 60, 100), stream(env, "payment", 40, 60, step=70)
    grouped = orders.co_group(payments).where(key).equal_to(key)
    windows = grouped.window(EventTimeSessionWindows.with_gap(60))
    windows.apply(gathered).uid("groups").sink_to(SimSink("out")).uid("out")


def temporal_join(env: Env) -> None:
    orders, prices = stream(env, "order", 80, 100), stream(env, "price", 30, 40, step=27)
    joined = orders.key_by(key).temporal_join(prices.key_by(key), how="left")
    joined.process(names).uid("join").sink_to(SimSink("out", view=without_ties)).uid("out")


def without_ties(rows: list[Any]) -> list[Any]:
    """Both splits bring a price at the same time; which one comes first depends on timing."""
    return [(order, price and price[6:]) for order, price in rows]


class Slow(AsyncFunction[Any, Any]):
    """Takes a time that depends on the record; the first attempt at some records fails."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    async def async_invoke(self, value: Event) -> list[Any]:
        number = int(value[2].rpartition("-")[2])
        await asyncio.sleep(number * 7919 % 23 / 1000)
        if number % 7 == 3 and value[2] not in self._failed:
            self._failed.add(value[2])
            raise ConnectionError(value[2])
        return [(*value, number * 3)] * (number % 3)


RETRY = AsyncRetryStrategy.fixed_delay(3, 15, None, lambda error: isinstance(error, ConnectionError))


def total(events: list[Any], _: list[Any]) -> list[Any]:
    return [(events[0][0], len(events), sum(event[3] for event in events))]


def async_ordered(env: Env) -> None:
    asked = AsyncDataStream.ordered_wait_with_retry(stream(env, "order", 70, 150), Slow(), 10_000, RETRY, 8)
    asked.uid("ask").map(lambda event: event[2:]).sink_to(SimSink("out")).uid("out")


def async_unordered(env: Env) -> None:
    """A window behind the requests: a result behind its watermark would be late and missing."""
    orders = stream(env, "order", 70, 150).rebalance()
    asked = AsyncDataStream.unordered_wait_with_retry(orders, Slow(), 10_000, RETRY, 8).uid("ask")
    windows = asked.co_group(asked).where(key).equal_to(key).window(TumblingEventTimeWindows.of(100))
    windows.apply(total).uid("windows").sink_to(SimSink("out")).uid("out")


def make_orders(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"user": index % KEYS, "order": index, "ts": index * 5 + index * 7919 % 5 * 9})


def make_payments(index: Any) -> pa.RecordBatch:
    """Few have a note: a batch in which nobody has one does not know that notes are texts."""
    notes = [f"note {n}" if n % 16 == 5 else None for n in index.tolist()]
    times = index * 7 + index * 7919 % 4 * 11
    return pa.record_batch({"payer": index % KEYS, "payment": index, "ts": times, "note": pa.array(notes)})


def columnar(env: Env, name: str, make: Any, count: int, rate: float) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(BOUND).with_timestamp_column("ts")
    return env.from_source(DataGeneratorSource(make, count, rate, columns=True), strategy, name).uid(name)


def columns_interval_join(env: Env) -> None:
    orders = columnar(env, "orders", make_orders, 120, 300.0).key_by("user")
    payments = columnar(env, "payments", make_payments, 80, 200.0).key_by("payer")
    joined = orders.interval_join(payments).between(-20, 40).columns()
    joined.uid("join").sink_to(SimSink("out")).uid("out")


def columns_window_join(env: Env) -> None:
    orders = columnar(env, "orders", make_orders, 120, 300.0)
    payments = columnar(env, "payments", make_payments, 80, 200.0)
    windows = SlidingEventTimeWindows.of(90, 30)
    joined = orders.join(payments).where("user").equal_to("payer").window(windows).columns()
    joined.uid("join").sink_to(SimSink("out")).uid("out")


ORDERS = pa.schema([("user", pa.int64()), ("order", pa.int64()), ("ts", pa.int64())])
PAYMENTS = pa.schema([("payer", pa.int64()), ("payment", pa.int64()), ("ts", pa.int64())])
TYPES = (ORDERS, PAYMENTS)


def columns_interval_join_full(env: Env) -> None:
    orders = columnar(env, "orders", make_orders, 120, 300.0).key_by("user")
    payments = columnar(env, "payments", make_payments, 80, 200.0).key_by("payer")
    joined = orders.interval_join(payments, how="full").between(-5, 12).columns(types=TYPES)
    joined.uid("join").sink_to(SimSink("out")).uid("out")


def columns_window_join_full(env: Env) -> None:
    orders = columnar(env, "orders", make_orders, 120, 300.0)
    payments = columnar(env, "payments", make_payments, 80, 200.0)
    joined = orders.join(payments, how="full").where("user").equal_to("payer")
    windows = joined.window(SlidingEventTimeWindows.of(30, 15))
    windows.columns(types=TYPES).uid("join").sink_to(SimSink("out")).uid("out")


def columns_temporal_join(env: Env) -> None:
    orders = columnar(env, "orders", make_orders, 120, 300.0).key_by("user")
    payments = columnar(env, "payments", make_payments, 80, 200.0).key_by("payer")
    joined = orders.temporal_join(payments, how="left").columns(types=TYPES)
    joined.uid("join").sink_to(SimSink("out")).uid("out")


JOIN_GRAPHS: dict[str, Callable[[Env], None]] = {
    "interval_join": interval_join,
    "interval_join_full": interval_join_full,
    "window_join": window_join,
    "co_group_sessions": co_group_sessions,
    "temporal_join": temporal_join,
    "async_ordered": async_ordered,
    "async_unordered": async_unordered,
    "columns_interval_join": columns_interval_join,
    "columns_window_join": columns_window_join,
    "columns_interval_join_full": columns_interval_join_full,
    "columns_window_join_full": columns_window_join_full,
    "columns_temporal_join": columns_temporal_join,
    "interval_join_rocks": on_disk(interval_join_full),
    "temporal_join_rocks": on_disk(temporal_join),
}
