"""More windows in the simulator: shared panes, evictors, counts, early results, deltas.

Where the outcome depends on the order of a key's records, all of them come from one split: its order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns import Count, Max, Sum
from penstock.common import Row, WatermarkStrategy
from penstock.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import (
    AfterWatermark,
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from penstock.testing import SimSink, SimSource

Env = StreamExecutionEnvironment
Click = tuple[int, int, int]
"""Key, time, number."""
KEYS = 4
MANY = 100
PRIME = 1_000_003


class Describe(ProcessWindowFunction):
    """Key, count and sum of a window's numbers, and where it ends if it does."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        values = sorted(element[2] for element in elements)
        yield (key, getattr(context.window(), "end", None), len(values), sum(values))


class InOrder(ProcessWindowFunction):
    """As :class:`Describe`, with a number that tells the order of the numbers."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        values = [element[2] for element in elements]
        yield (
            key,
            context.window().end,
            len(values),
            reduce(lambda n, value: (31 * n + value) % PRIME, values),
        )


class CountAndSum(AggregateFunction):
    """As :class:`Describe`, added up one by one."""

    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: Click, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + 1, accumulator[1] + value[2])

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator


class Labelled(ProcessWindowFunction):
    """An aggregate with its key and window."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for result in elements:
            yield (key, context.window().start, context.window().end, *result)


def clicks(env: Env, own_keys: bool, late_ms: int = 0) -> Any:
    """Out of order by less than 50 ms; with ``own_keys`` in order, and no two splits share a key.

    Every fifth record is older by ``late_ms``.
    """

    def late_by(i: int) -> int:
        return late_ms if i % 5 == 0 else 0

    def split(number: int) -> list[Click]:
        if own_keys:
            return [(number * KEYS + i % KEYS, i * 10 - late_by(i), i) for i in range(90)]
        times = [i * 10 + (i * 7919 % 5) * 9 - late_by(i) for i in range(90)]
        return [(i % KEYS, time, number * 1000 + i) for i, time in enumerate(times)]

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(0 if own_keys else 50)
    timed = strategy.with_timestamp_assigner(lambda click, _: click[1])
    stream = env.from_source(SimSource([split(0), split(1)]), timed, "clicks").uid("clicks")
    return stream.key_by(lambda click: click[0])


def shared_panes(env: Env) -> None:
    windows = clicks(env, own_keys=False).window(SlidingEventTimeWindows.of(300, 100))
    windows.aggregate(CountAndSum(), Labelled()).uid("windows").sink_to(SimSink("out")).uid("out")


def evictor(env: Env) -> None:
    windows = clicks(env, own_keys=False).window(TumblingEventTimeWindows.of(200))
    kept = windows.evictor(TimeEvictor.of(80)).process(Describe())
    kept.uid("windows").sink_to(SimSink("out")).uid("out")


def count_windows(env: Env) -> None:
    windows = clicks(env, own_keys=True).count_window(7, 3)
    windows.process(Describe()).uid("windows").sink_to(SimSink("out")).uid("out")


def late_firings(env: Env) -> None:
    """Records come after the end of their window, which shows all that it has once more."""
    windows = clicks(env, own_keys=False, late_ms=400).window(TumblingEventTimeWindows.of(100))
    described = windows.allowed_lateness(60_000).process(Describe()).uid("windows")
    described.sink_to(SimSink("out", fullest)).uid("out")


def late_in_order(env: Env) -> None:
    """Records come after the end of some of their windows; in the others all are in order of arrival."""
    windows = clicks(env, own_keys=True, late_ms=130).window(SlidingEventTimeWindows.of(300, 100))
    described = windows.allowed_lateness(60_000).process(InOrder()).uid("windows")
    described.sink_to(SimSink("out", fullest)).uid("out")


def late_shared_panes(env: Env) -> None:
    """Late records come again behind a restore, before event time is where their windows have fired."""
    windows = clicks(env, own_keys=False, late_ms=400).window(SlidingEventTimeWindows.of(300, 100))
    labelled = windows.allowed_lateness(60_000).aggregate(CountAndSum(), Labelled()).uid("windows")
    labelled.sink_to(SimSink("out", fullest_labelled)).uid("out")


def fullest_labelled(rows: list[Any]) -> list[Any]:
    return fullest([(key, end, count, total) for key, _, end, count, total in rows])


def fullest(rows: list[Any]) -> list[Any]:
    """Of each key and window the result with the most records."""
    found: dict[tuple[Any, Any], tuple[int, int]] = {}
    for key, end, count, total in rows:
        found[key, end] = max(found.get((key, end), (0, 0)), (count, total))
    return [(*place, *sums) for place, sums in found.items()]


def full_windows(env: Env) -> None:
    windows = clicks(env, own_keys=True).count_window(5)
    windows.process(Describe()).uid("windows").sink_to(SimSink("out")).uid("out")


def firings(env: Env) -> None:
    """What came since the last firing: which one shows a record depends on timing, that one does not."""
    windows = clicks(env, own_keys=False).window(TumblingEventTimeWindows.of(200))
    trigger = PurgingTrigger.of(ContinuousEventTimeTrigger.of(70))
    windows.trigger(trigger).process(Describe()).uid("windows").sink_to(SimSink("out", added_up)).uid("out")


def added_up(rows: list[Any]) -> list[Any]:
    """All results of a key and window as one."""
    found: dict[tuple[Any, Any], tuple[int, int]] = {}
    for key, end, count, total in rows:
        so_far = found.get((key, end), (0, 0))
        found[key, end] = (so_far[0] + count, so_far[1] + total)
    return [(*place, *sums) for place, sums in found.items()]


def early_results(env: Env) -> None:
    windows = clicks(env, own_keys=True).window(TumblingEventTimeWindows.of(200))
    trigger = AfterWatermark.past_end_of_window().with_early(CountTrigger.of(2))
    windows.trigger(trigger).process(Describe()).uid("windows").sink_to(SimSink("out")).uid("out")


def deltas(env: Env) -> None:
    trigger = PurgingTrigger.of(DeltaTrigger.of(15.0, lambda old, new: new[2] - old[2]))
    windows = clicks(env, own_keys=True).window(GlobalWindows.create()).trigger(trigger)
    windows.process(Describe()).uid("windows").sink_to(SimSink("out")).uid("out")


def sliding_columns(env: Env) -> None:
    """Few have a note: a batch in which nobody has one does not know that notes are texts."""

    def orders(index: Any) -> pa.RecordBatch:
        notes = pa.array([f"note {n:03}" if n % 16 == 5 else None for n in index.tolist()])
        columns = {"country": index % KEYS, "amount": index * 3 % 101, "ts": index * 5, "note": notes}
        return pa.record_batch(columns)

    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(orders, 240, 900.0, columns=True)
    windows = env.from_source(source, by_time, "orders").uid("orders").key_by("country")
    sliding = windows.window(SlidingEventTimeWindows.of(200, 50)).agg(
        Count("orders"), Sum("amount", "total"), Max("note", "last")
    )
    sliding.uid("windows").sink_to(SimSink("out")).uid("out")


def session_columns(env: Env) -> None:
    """Each key has a record every 20 ms, and pauses of more than the gap."""

    def orders(index: Any) -> pa.RecordBatch:
        times = index * 5 + index // 40 * 100
        return pa.record_batch({"country": index % KEYS, "amount": index * 3 % 101, "ts": times})

    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(orders, 240, 900.0, columns=True)
    windows = env.from_source(source, by_time, "orders").uid("orders").key_by("country")
    sessions = windows.window(EventTimeSessionWindows.with_gap(50)).agg(
        Count("orders"), Sum("amount", "total")
    )
    sessions.uid("windows").sink_to(SimSink("out")).uid("out")


class DescribeOrders(ProcessWindowFunction):
    """As :class:`Describe`, of rows with names."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        amounts = [element.amount for element in elements]
        yield (key, context.window().start, len(amounts), sum(amounts))


def orders_by_country(env: Env) -> Any:
    """Columns, and a few rows. Only larger batches stay columns: each record of the source becomes many."""

    def start(index: Any) -> pa.RecordBatch:
        return pa.record_batch({"ts": index * MANY})

    def orders(starts: pa.RecordBatch) -> pa.RecordBatch:
        times = (starts.column("ts").to_numpy()[:, None] + np.arange(MANY)).ravel()
        return pa.record_batch({"country": times % KEYS, "amount": times * 3 % 101, "ts": times})

    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(start, 240, 900.0, columns=True)
    columns = env.from_source(source, by_time, "orders").uid("orders")
    columns = columns.map_batches(orders, timestamp_column="ts").uid("many")
    few = [[Row(country=i % KEYS, amount=i, ts=i * 400) for i in range(60) if i % 10 < 2]]
    by_field = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.ts)
    rows = env.from_source(SimSource(few, rate=40), by_field, "few").uid("few")
    return columns.union(rows).key_by("country").window(TumblingEventTimeWindows.of(2000))


def kept_columns(env: Env) -> None:
    """Records that stay columns until their window fires, but for windows that rows come to as well."""
    windows = orders_by_country(env)
    windows.process(DescribeOrders()).uid("windows").sink_to(SimSink("out")).uid("out")


def waiting_columns(env: Env) -> None:
    """The same for windows that wait for late records, of which there are none: each fires once."""
    windows = orders_by_country(env).allowed_lateness(5000)
    windows.process(DescribeOrders()).uid("windows").sink_to(SimSink("out")).uid("out")


WINDOW_GRAPHS: dict[str, Callable[[Env], None]] = {
    "shared_panes": shared_panes,
    "evictor": evictor,
    "count_windows": count_windows,
    "late_firings": late_firings,
    "late_in_order": late_in_order,
    "late_shared_panes": late_shared_panes,
    "full_windows": full_windows,
    "firings": firings,
    "early_results": early_results,
    "deltas": deltas,
    "sliding_columns": sliding_columns,
    "session_columns": session_columns,
    "kept_columns": kept_columns,
    "waiting_columns": waiting_columns,
}
