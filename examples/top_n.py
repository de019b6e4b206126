"""The most sold articles of each ten minutes.

First the sales of each article in each window are counted, by many subtasks; then the counts of one
window meet, and when the watermark says that all have come, the largest are the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ListStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

MINUTE = 60_000
SALES = [("tea", 1), ("mug", 2), ("tea", 3), ("jam", 4), ("mug", 5), ("tea", 9), ("jam", 12), ("jam", 8)]
"""Article and minute, for a first try."""


class Sold(ProcessWindowFunction):
    """How many of an article were sold in a window."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterator[Any]:
        yield context.window().end, key, sum(1 for _ in elements)


class Largest(KeyedProcessFunction):
    """Gathers the counts of one window; its end is the key."""

    def __init__(self, n: int) -> None:
        self.n = n

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_list_state(ListStateDescriptor("counts"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        end, article, sold = value
        self.counts.add((sold, article))
        ctx.timer_service().register_event_time_timer(end)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        best = heapq.nsmallest(self.n, self.counts.get(), key=lambda count: (-count[0], count[1]))
        yield ctx.get_current_key(), [(article, sold) for sold, article in best]
        self.counts.clear()


def build(sales: DataStream, n: int) -> DataStream:
    """(end of window, [(article, sold), ...]) for (article, milliseconds) sales."""
    time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(2))
    timed = sales.assign_timestamps_and_watermarks(time.with_timestamp_assigner(lambda sale, _: sale[1]))
    windows = timed.key_by(lambda sale: sale[0]).window(TumblingEventTimeWindows.of(Time.minutes(10)))
    counts = windows.process(Sold()).name("sold").uid("sold")
    return counts.key_by(lambda count: count[0]).process(Largest(n)).name("top n").uid("top-n")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_collection([(article, minute * MINUTE) for article, minute in SALES]), 2).print()
    env.execute("top-n")
