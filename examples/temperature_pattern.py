"""Two readings of a sensor that differ by more than 20 degrees within a minute, by event time.

penstock run temperature_pattern.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.cep import CEP, ConditionContext, Pattern, PatternProcessFunction
from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment


class Reading(NamedTuple):
    """What a sensor sends."""

    sensor: str
    time: int
    degrees: float


READINGS = [
    Reading("boiler", 0, 61.0),
    Reading("boiler", 20_000, 64.5),
    Reading("freezer", 25_000, -18.0),
    Reading("boiler", 41_000, 83.0),
    Reading("freezer", 70_000, -16.5),
    Reading("freezer", 130_000, 5.0),
]


def jumped(reading: Reading, ctx: ConditionContext) -> bool:
    """Whether a reading is far from the one that the match begins with."""
    (first,) = ctx.get_events_for_pattern("first")
    return abs(reading.degrees - first.degrees) > 20


class Alert(PatternProcessFunction):
    """Says what jumped, and how fast."""

    def process_match(self, match: Any, ctx: PatternProcessFunction.Context) -> Iterator[str]:
        first, second = match["first"][0], match["second"][0]
        seconds = (second.time - first.time) // 1000
        yield f"{first.sensor}: from {first.degrees} to {second.degrees} within {seconds} s"


JUMP = Pattern.begin("first").followed_by("second").where(jumped).within(Duration.of_minutes(1))


def build(env: StreamExecutionEnvironment, readings: list[Reading]) -> DataStream:
    """Add the job to ``env``; gives the alerts."""
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(30)).with_timestamp_assigner(
        lambda reading, _: reading.time
    )
    stream = env.from_collection(readings).assign_timestamps_and_watermarks(by_time)
    by_sensor = stream.key_by(lambda reading: reading.sensor)
    return CEP.pattern(by_sensor, JUMP).process(Alert()).name("jumps").uid("jumps")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, READINGS).print()
    env.execute("temperature-pattern")
