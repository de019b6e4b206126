"""Readings above a limit, as alerts: each reading speaks for itself, so there is no state.

The limit is checked on whole columns; one call looks at thousands of readings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource

LIMIT = 80.0


def readings(index: np.ndarray) -> pa.RecordBatch:
    """Made-up temperatures of ten sensors: each goes up and down, sensor 7 gets hot."""
    sensor = index % 10
    celsius = 60 + 15 * np.sin(index / 500) + np.where(sensor == 7, 10, 0)
    return pa.record_batch({"sensor": sensor, "celsius": celsius})


def too_hot(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The readings above the limit."""
    return batch.filter(pc.greater(batch["celsius"], LIMIT))


def build(stream: DataStream) -> DataStream:
    """The alerts of a stream of readings."""
    return stream.map_batches(too_hot).name("too hot")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(readings, count=20_000, columns=True)
    build(env.from_source(source, WatermarkStrategy.no_watermarks(), "readings")).print()
    env.execute("sensor-alert")
