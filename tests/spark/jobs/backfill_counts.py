"""Program: numbers from a live topic, of the log or of Kafka, counted per key and second of event time.

    backfill_counts.py WORK SWITCH log ROOT TOPIC
    backfill_counts.py WORK SWITCH kafka BOOTSTRAP TOPIC

A value is ``key time``; from SWITCH on it is live.  Ends where the topic ends at its start.  Touches
WORK/late-history when the history given to it is nearly read, and WORK/live at the first live record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.common import WatermarkStrategy
from penstock.common.serialization import Encoder, SimpleStringSchema
from penstock.connectors.source import Source
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.datastream.connectors.log import LogOffsets, LogSource, Text
from penstock.datastream.window import TumblingEventTimeWindows

LATE_MS = 2_000


def source(kind: str, place: str, topic: str) -> Source:
    """The live source."""
    if kind == "log":
        return LogSource(place, topic, Text(), end=LogOffsets.latest())
    builder = KafkaSource.builder().set_bootstrap_servers(place).set_topics(topic)
    builder.set_value_only_deserializer(SimpleStringSchema())
    return builder.set_bounded(KafkaOffsetsInitializer.latest()).build()


class Marking:
    """Passes records on; leaves a file when some moment has come."""

    def __init__(self, work: Path, switch: int) -> None:
        self._work = work
        self._switch = switch
        self._left: set[str] = set()

    def __call__(self, text: str) -> tuple[str, int]:
        key, time = text.split()
        left = self._switch - int(time)
        moment = "live" if left <= 0 else "late-history" if left < LATE_MS else ""
        if moment and moment not in self._left:
            self._left.add(moment)
            (self._work / moment).touch()
        return key, int(time)


class Count(ProcessWindowFunction):
    """Key, start of the window, how many."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield f"{key} {context.window().start} {len(list(elements))}"


def main(work: Path, switch: int, kind: str, place: str, topic: str) -> None:
    """Run it."""
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(200)
    timed = WatermarkStrategy.for_bounded_out_of_orderness(500).with_timestamp_assigner(
        lambda text, _: int(text.split()[1])
    )
    numbers = env.from_source(source(kind, place, topic), timed, "numbers").uid("numbers")
    pairs = numbers.map(Marking(work, switch)).key_by(lambda pair: pair[0])
    counts = pairs.window(TumblingEventTimeWindows.of(1000)).process(Count()).uid("counts")
    files = FileSink.for_row_format(str(work / "out"), Encoder.simple_string_encoder()).build()
    counts.sink_to(files).uid("out")
    env.execute("backfill-counts")
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
