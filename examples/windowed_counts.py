"""Clicks per country and window of event time, and an alert each time a window has got busy again.

What a window is, is one line: ``WINDOW``. ``windowed_counts.py`` counts by the hour, ``session_counts.py``
by visits that end with half an hour of silence; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import DataStream, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream import window as windows

ALERTS = OutputTag("alerts")
CLICKS = [("de", 5), ("fr", 10), ("de", 20), ("de", 25), ("de", 70), ("fr", 150), ("de", 130)]
"""Country and minute, for a first try."""

WINDOW = windows.TumblingEventTimeWindows.of(Time.hours(1))


class Counts(ProcessWindowFunction):
    """The number of clicks in a window: an alert while the window is open, a result when it closes."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterator[Any]:
        window = context.window()
        count = (key, window.start, window.end, sum(1 for _ in elements))
        if context.current_watermark() < window.max_timestamp():
            yield ALERTS, count
        else:
            yield count


def build(clicks: DataStream, threshold: int) -> DataStream:
    """Counts of (country, milliseconds) clicks; alerts are the side output ``ALERTS``."""
    time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5))
    timed = clicks.assign_timestamps_and_watermarks(time.with_timestamp_assigner(lambda click, _: click[1]))
    early = windows.AfterWatermark.past_end_of_window().with_early(windows.CountTrigger.of(threshold))
    by_country = timed.key_by(lambda click: click[0])
    return by_country.window(WINDOW).trigger(early).process(Counts()).uid("counts")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    counts = build(env.from_collection([(country, minute * 60_000) for country, minute in CLICKS]), 3)
    counts.print("count")
    counts.get_side_output(ALERTS).print("alert")
    env.execute("counts")
