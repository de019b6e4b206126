"""Patterns in the simulator: partial matches, events that wait and timeouts under all faults.

No two events of a key have the same time, so their order does not depend on how splits interleave.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from penstock.common import WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.testing import SimSink, SimSource

Env = StreamExecutionEnvironment
Reading = tuple[int, int, int]
"""Sensor, time, temperature."""
SENSORS = 4
TIMED_OUT = OutputTag("timed out")


class Tell(PatternProcessFunction):
    """Key, times of the events of each step, and when it was known."""

    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield ("match", *_told(match), ctx.timestamp())

    def process_timed_out_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield TIMED_OUT, ("timed out", *_told(match), ctx.timestamp())


def _told(match: dict[str, list[Reading]]) -> tuple[Any, ...]:
    sensor = next(iter(match.values()))[0][0]
    return (sensor, *((name, [event[1] for event in events]) for name, events in match.items()))


def readings(split: int, each: int) -> list[Reading]:
    """Out of order by less than 100 ms; temperatures go up and down."""
    return [(i % SENSORS, i * 20 + (i * 7919 % 5) * 18 + split, i * 37 % 100) for i in range(each)]


def rising() -> Pattern:
    """Cold, ever warmer readings, hot, and then no cold one right after; within 700 ms."""
    skip = AfterMatchSkipStrategy.skip_to_last("warmer")
    return (
        Pattern.begin("cold", skip)
        .where(lambda reading: reading[2] < 40)
        .followed_by("warmer")
        .where(lambda reading, ctx: reading[2] > max(r[2] for r in _so_far(ctx)))
        .times(1, 3)
        .allow_combinations()
        .not_next("freezing")
        .where(lambda reading: reading[2] < 5)
        .followed_by_any("hot")
        .where(lambda reading: reading[2] > 60)
        .within(700)
    )


def _so_far(ctx: Any) -> list[Reading]:
    found: list[Reading] = ctx.get_events_for_pattern("cold") + ctx.get_events_for_pattern("warmer")
    return found


def patterns(env: Env) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(100)
    by_time = strategy.with_timestamp_assigner(lambda value, _: value[1])
    source = SimSource([readings(split, 90) for split in range(2)])
    stream = env.from_source(source, by_time, "readings").uid("readings")
    found = CEP.pattern(stream.key_by(lambda reading: reading[0]), rising()).process(Tell()).uid("rising")
    found.union(found.get_side_output(TIMED_OUT)).sink_to(SimSink("out")).uid("out")
