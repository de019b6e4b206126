"""Each order once, although the shop sends some again: the first of an id passes, for an hour.

The state of an id is gone when the watermark is an hour past its first order, so it does not grow with
the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor

HOUR = 3_600_000
ORDERS = [("a", 0), ("b", 1000), ("a", 2000), ("c", 5000), ("b", 6000)]
"""Id and milliseconds, for a first try."""


class FirstOnly(KeyedProcessFunction):
    """Passes an id on if it is not known; forgets it after an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.known = runtime_context.get_state(ValueStateDescriptor("known", Types.BOOLEAN()))

    def process_element(self, order: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if not self.known.value():
            self.known.update(True)
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + HOUR)
            yield order

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        self.known.clear()
        return iter(())


def build(orders: DataStream) -> DataStream:
    """The (id, milliseconds) orders that are no repetitions."""
    time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
    timed = orders.assign_timestamps_and_watermarks(time.with_timestamp_assigner(lambda order, _: order[1]))
    return timed.key_by(lambda order: order[0]).process(FirstOnly()).name("first only").uid("first-only")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_collection(ORDERS)).print()
    env.execute("deduplication")
