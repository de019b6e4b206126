"""Counts the words of a topic into another, for ever: python counting.py LOG CHECKPOINTS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import LogSink, LogSource, Text
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield f"{value} {seen}"


log, checkpoints = sys.argv[1:]
config = Configuration()
config.set_string("execution.checkpointing.interval", "100 ms")
config.set_string("execution.checkpointing.dir", checkpoints)
env = StreamExecutionEnvironment.get_execution_environment(config)
words = env.from_source(LogSource(log, "in", Text()), WatermarkStrategy.no_watermarks(), "in").uid("in")
counted = words.key_by(lambda word: word).process(Count()).uid("count")
counted.sink_to(LogSink(log, "out", Text())).uid("out")
env.execute("counting")
