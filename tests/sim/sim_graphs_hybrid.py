"""History, then live, in the simulator: windows across the switch must be whole whatever fails during it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.common import WatermarkStrategy
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import SimSink, SimSource

Env = StreamExecutionEnvironment
_SWITCH = 600
_STEP = 10


class Tell(ProcessWindowFunction):
    """Key, window, how many records from before and from after the switch."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        times = [time for _, time in elements]
        before = sum(time < _SWITCH for time in times)
        yield (key, context.window().start, before, len(times) - before)


def records(split: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(time // _STEP % 3, time + split) for time in range(start, end, _STEP)]


def hybrid(env: Env) -> None:
    history = SimSource([records(split, 0, _SWITCH) for split in range(3)])
    live = SimSource([records(split, _SWITCH, 2 * _SWITCH) for split in range(2)], late_splits=1)
    source = HybridSource.builder(history).add_source(live).build()
    timed = WatermarkStrategy.for_bounded_out_of_orderness(_SWITCH).with_timestamp_assigner(
        lambda value, _: value[1]
    )
    stream = env.from_source(source, timed, "both").uid("both")
    windows = stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(250))
    windows.process(Tell()).uid("count").sink_to(SimSink("out")).uid("out")
