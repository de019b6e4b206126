"""What overlapping windows cost: one hour by one minute against tumbling windows of one minute.

``python benchmarks/windows.py`` takes half a minute.  An operator is fed batches of in-order records and
a watermark after each, by hand, so that nothing but the window is measured, in processor time.  Both kinds
of window emit one result per key and minute once the first hour has passed; the target is that the
overlapping ones are at most twice as slow.  The default load is one record a second of each key.
``--keys``, ``--per-minute`` (records of a key in one minute) and ``--minutes`` change it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from penstock.core.batch import Batch  # noqa: E402
from penstock.core.clock import SystemClock  # noqa: E402
from penstock.core.ids import EventTime, OperatorId  # noqa: E402
from penstock.core.metrics import MetricGroup  # noqa: E402
from penstock.operators.columnar.aggregates import Count, Sum  # noqa: E402
from penstock.operators.columnar.panes import Panes  # noqa: E402
from penstock.operators.columnar.window_agg import ColumnarWindowOperator  # noqa: E402
from penstock.operators.functions import AggregateFunction  # noqa: E402
from penstock.operators.operator import Operator, OperatorContext, RuntimeInfo  # noqa: E402
from penstock.operators.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows  # noqa: E402
from penstock.operators.window.operator import WindowOperator  # noqa: E402
from penstock.operators.window.window_state import AggregateContents, ReduceContents  # noqa: E402
from penstock.state.heap.backend import heap_state  # noqa: E402
from penstock.state.operator_state import OperatorStateStore  # noqa: E402

CLOCK = SystemClock()
MINUTE, HOUR = 60_000, 3_600_000


class Total(AggregateFunction):
    """Number and sum."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + 1, accumulator[1] + value[1])

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Counted:
    """An output that only counts."""

    def __init__(self) -> None:
        self.results = 0

    def emit(self, batch: Batch) -> None:
        self.results += len(batch)

    def side(self, tag: str, batch: Batch) -> None: ...

    def watermark(self, time: EventTime) -> None: ...

    def idle(self, is_idle: bool) -> None: ...


def minutes(keys: int, per_minute: int, count: int, columns: bool) -> list[tuple[Batch, int]]:
    """One batch per minute of event time, and the watermark that follows it."""
    random = np.random.default_rng(7)
    batches = []
    for minute in range(count):
        key = random.permutation(np.repeat(np.arange(keys), per_minute))
        amount = random.integers(0, 100, len(key))
        times = minute * MINUTE + np.sort(random.integers(0, MINUTE, len(key)))
        if columns:
            batch = Batch.of_columns(pa.record_batch({"key": key, "amount": amount}), times, ("key",))
        else:
            listed = key.tolist()
            rows = list(zip(listed, amount.tolist(), strict=True))
            batch = Batch.of_rows(rows, times, listed)
        batches.append((batch, (minute + 1) * MINUTE - 1))
    return batches


def throughput(operator: Operator, batches: list[tuple[Batch, int]]) -> tuple[float, int]:
    """Records a second, counted from the second hour on, and results in that time."""
    out = Counted()
    info = RuntimeInfo("windows", "windows", "windows", 0, 1, 128, 0)
    state, store = heap_state(), OperatorStateStore()
    operator.open(OperatorContext(OperatorId("windows"), info, out, CLOCK, state, store, MetricGroup()))
    warm = 60
    for batch, watermark in batches[:warm]:
        operator.process(batch)
        operator.on_watermark(EventTime(watermark))
    out.results = 0
    began = time.process_time()
    for batch, watermark in batches[warm:]:
        operator.process(batch)
        operator.on_watermark(EventTime(watermark))
    took = time.process_time() - began
    return sum(len(batch) for batch, _ in batches[warm:]) / took, out.results


def compare(name: str, make: Callable[[int, int], Operator], batches: list[tuple[Batch, int]]) -> float:
    """Print both throughputs and their ratio; best of three rounds each, taken by turns."""
    tumbling, sliding = 0.0, 0.0
    for _ in range(3):
        speed, expected = throughput(make(MINUTE, MINUTE), batches)
        tumbling = max(tumbling, speed)
        speed, results = throughput(make(HOUR, MINUTE), batches)
        sliding = max(sliding, speed)
        assert results == expected, (results, expected)
    ratio = tumbling / sliding
    print(f"  {name:<22} {tumbling / 1e6:>9.2f} {sliding / 1e6:>9.2f} {ratio:>7.2f}", flush=True)
    return ratio


def row_window(contents: Callable[[], object]) -> Callable[[int, int], Operator]:
    def make(size: int, slide: int) -> Operator:
        kind = TumblingEventTimeWindows(size, 0) if size == slide else SlidingEventTimeWindows(size, slide, 0)
        return WindowOperator(kind, contents())

    return make


def column_window(size: int, slide: int) -> Operator:
    return ColumnarWindowOperator(["key"], Panes(size, slide), [Count(), Sum("amount")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--per-minute", type=int, default=60)
    parser.add_argument("--minutes", type=int, default=130)
    parser.add_argument("--with-reduce", action="store_true", help="also the reduce, which shares no panes")
    chosen = parser.parse_args()
    load = (chosen.keys, chosen.per_minute, chosen.minutes)
    print(f"windows: {load[0]:,} keys, {load[1]} records of each a minute; million records a second")
    print(f"  {'':<22} {'1 min':>9} {'1 h/1 min':>9} {'ratio':>7}")
    rows = minutes(*load, columns=False)
    compare("rows, aggregate", row_window(lambda: AggregateContents(Total())), rows)
    if chosen.with_reduce:
        reduce = row_window(lambda: ReduceContents(lambda a, b: (a[0], a[1] + b[1])))
        compare("rows, reduce", reduce, rows)
    columns = minutes(10 * load[0], load[1], load[2], columns=True)
    compare(f"columns, {10 * load[0]:,} keys", column_window, columns)


if __name__ == "__main__":
    main()
