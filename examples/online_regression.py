"""A regression that learns while it predicts: its parameters are keyed state.

One model per house predicts the power a heating takes from the temperature outside, before it learns
from the truth (recursive least squares).  The model is part of every snapshot, so after a failure it
neither forgets nor learns a reading twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.common import WatermarkStrategy
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

UNSURE = 1000.0
"""How far the parameters may be from zero, to begin with."""


def reading(i: int) -> tuple[str, float, float]:
    """House, degrees outside, kilowatts: a line for each house, and some noise that repeats itself."""
    degrees = 15 * np.sin(i / 40) + i % 7
    slope, base = ((-0.2, 5.0), (-0.5, 12.0))[i % 2]
    noise = ((i * 7919) % 101 - 50) / 1000
    return f"house-{i % 2}", float(degrees), float(base + slope * degrees + noise)


class Regression(KeyedProcessFunction):
    """Predicts, then learns. State: the weights, and how unsure they are (a 2 by 2 matrix)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.model = runtime_context.get_state(ValueStateDescriptor("model"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        house, degrees, kilowatts = value
        weights, unsure = self.model.value() or ([0.0, 0.0], [[UNSURE, 0.0], [0.0, UNSURE]])
        w, p, x = np.array(weights), np.array(unsure), np.array([degrees, 1.0])
        predicted = float(w @ x)
        gain = p @ x / (1.0 + x @ p @ x)
        w = w + gain * (kilowatts - predicted)
        p = p - np.outer(gain, x @ p)
        self.model.update((w.tolist(), p.tolist()))
        yield house, predicted, kilowatts, tuple(w.tolist())


def build(readings: DataStream) -> DataStream:
    """(house, predicted, true, (slope, base)) for each (house, degrees, kilowatts)."""
    return readings.key_by(lambda value: value[0]).process(Regression()).name("regression").uid("regression")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(500)
    source = DataGeneratorSource(reading, count=2000)
    build(env.from_source(source, WatermarkStrategy.no_watermarks(), "readings")).print()
    env.execute("online-regression")
