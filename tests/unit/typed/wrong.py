"""Programs that are wrong: type checkers must find every line that says so, and no other.

Read by ``test_typed_programs.py``, which never runs it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common import Types
from penstock.datastream import (
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import CountTrigger, TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2])
texts = numbers.map(str)


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class OfText(KeyedProcessFunction[str, int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context[str]) -> Iterator[int]:
        self.total.update("one")  # wrong
        yield value


class Both(CoMapFunction[int, int, int]):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return value


numbers.map(Length())  # wrong
numbers.map(lambda n: n.upper())  # wrong
numbers.mapp(str)  # wrong
texts.filter("a")  # wrong
numbers.key_by(lambda n: n).process(OfText())  # wrong
numbers.connect(texts).map(Both())  # wrong
numbers.connect(5)  # wrong
numbers.key_by(lambda n: n).window(CountTrigger(3))  # wrong
numbers.key_by(lambda n: n).window(TumblingEventTimeWindows.of("1 min")).reduce(lambda a, b: str(a))  # wrong
env.enable_checkpointing([1000])  # wrong
first: str = numbers.execute_and_collect(limit=1)[0]  # wrong
for text in numbers.execute_and_collect():
    text.split()  # wrong
