"""The average of each sensor so far, with every reading: count and sum are the sensor's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.common import Types
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor

READINGS = [("cellar", 10.0), ("roof", 31.0), ("cellar", 12.0), ("roof", 29.0), ("cellar", 14.0)]


class Average(KeyedProcessFunction):
    """Keeps (count, sum) per sensor; a restart goes on from the last snapshot of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        kind = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", kind))

    def process_element(self, reading: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        sensor, celsius = reading
        count, total = self.seen.value() or (0, 0.0)
        count, total = count + 1, total + celsius
        self.seen.update((count, total))
        yield sensor, total / count


def build(readings: DataStream) -> DataStream:
    """Averages of (sensor, degrees) readings."""
    return readings.key_by(lambda reading: reading[0]).process(Average()).name("average").uid("average")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_collection(READINGS)).print()
    env.execute("sensor-average")
