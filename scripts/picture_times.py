"""What the pictures of event time show: the engine's own windows and its valve at work, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common import Time
from penstock.core.ids import MIN_TIME, EventTime
from penstock.datastream import DataStream, OutputTag, ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.event_time.watermark_generators import BoundedOutOfOrderness, WatermarkOutput
from penstock.event_time.watermark_valve import WatermarkValve
from penstock.testing import Harness, Record

NAMES = "AB"
ARRIVED = [1, 4, 3, 8, 6, 12, 9, 14, 11, 5, 19, 17, 24]
"""Event times of records, in seconds, in the order in which they arrive."""
BOUND, SIZE = 4, 10
LATE = OutputTag("late")


@dataclass(frozen=True)
class Arrival:
    """One record, and what it led to."""

    time: int
    watermark: float | None
    """Behind it; ``None`` before there is one."""
    is_late: bool
    closed: tuple[tuple[int, int], ...]
    """Windows that it closed: where each begins, and how many records it had."""


class _Size(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: int, context: ProcessWindowFunction.Context, elements: list[int]) -> object:
        yield context.window().start // 1000, len(list(elements))


def _windows(stream: DataStream[int]) -> DataStream[tuple[int, int]]:
    windows = stream.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.seconds(SIZE)))
    return windows.side_output_late_data(LATE).process(_Size())


def arrivals() -> list[Arrival]:
    """Windows of ten seconds, and watermarks that allow four of disorder."""
    generator, output = BoundedOutOfOrderness(BOUND * 1000), WatermarkOutput()
    found = []
    with Harness(_windows) as harness:
        for time in ARRIVED:
            harness.push(Record(time, time * 1000))
            late = bool(harness.take(LATE))
            generator.on_event(time, time * 1000, output)
            generator.on_periodic_emit(output)
            if output.watermark is not None:
                harness.watermark(output.watermark)
            mark = harness.current_watermark
            found.append(
                Arrival(time, None if mark == MIN_TIME else mark / 1000, late, tuple(harness.take()))
            )
    return found


MARKS = [("A", 5), ("B", 3), ("A", 9), ("B", 7), ("B", None), ("A", 12), ("B", 10), ("B", 14), ("A", 15)]
"""Watermarks as they come; ``None``: the channel says that it is idle."""


@dataclass(frozen=True)
class Mark:
    """What has come, and how the valve stands behind it."""

    said: str
    channels: tuple[str, ...]
    output: str


def valve() -> list[Mark]:
    """Two channels, one of which is idle for a while."""
    watched = WatermarkValve(2)
    idle: set[int] = set()
    found = []
    for name, time in MARKS:
        number = NAMES.index(name)
        if time is None:
            watched.on_idle(number)
            idle.add(number)
            said = f"{name} is idle"
        else:
            said = f"{name} says {time}"
            if number in idle:
                watched.on_active(number)
                idle.discard(number)
                said = f"{name} is active again and says {time}"
            watched.on_watermark(number, EventTime(time))
        channels = tuple(_of_channel(watched, number, idle) for number in range(2))
        found.append(Mark(said, channels, _time(watched.watermark)))
    return found


def _of_channel(watched: WatermarkValve, number: int, idle: set[int]) -> str:
    time = _time(watched.channel_watermark(number))
    if number in idle:
        return f"{time}, idle"
    return time if watched.is_aligned(number) else f"{time}, left out until it has caught up"


def _time(time: int) -> str:
    return "none" if time == MIN_TIME else str(time)
