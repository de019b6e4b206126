"""Aligned sources and learned watermarks under all faults: nobody waits for ever, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sim_graphs import Env, timed

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import Faults, SimSink, SimSource, simulate


class Count(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, context.window().start, len(list(elements))


def aligned(env: Env) -> None:
    """Two sources, one of which is ten times as fast in event time, drift a tenth of a second."""
    strategy = timed().with_watermark_alignment("both", 100, 40)
    slow = [[(f"slow-{split}", i * 10) for i in range(80)] for split in range(2)]
    fast = [[(f"fast-{split}", i * 100) for i in range(80)] for split in range(2)]
    streams = [
        env.from_source(SimSource(rows), strategy, name).uid(name)
        for name, rows in (("slow", slow), ("fast", fast))
    ]
    keyed = streams[0].union(streams[1]).key_by(lambda value: value[0])
    counts = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(500))).process(Count())
    counts.uid("counts").sink_to(SimSink("out")).uid("out")


def learned(env: Env) -> None:
    strategy = WatermarkStrategy.for_learned_lateness(0.01, 50).with_timestamp_assigner(lambda v, _: v)
    rows = [[i * 10 - (i % 7) * 9 for i in range(100)] for _ in range(3)]
    source = env.from_source(SimSource(rows), strategy, "numbers").uid("numbers")
    again = source.rebalance().assign_timestamps_and_watermarks(strategy).uid("again")
    again.sink_to(SimSink("out")).uid("out")


def test_aligned_sources_end_and_lose_nothing() -> None:
    assert simulate(aligned, range(10), Faults.all(), slots=2).snapshots > 0


def test_learned_watermarks_are_restored_at_any_parallelism() -> None:
    assert simulate(learned, range(10), Faults.all(), slots=2).snapshots > 0
