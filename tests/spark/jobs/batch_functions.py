"""The functions that random pipelines are made of: what they give does not depend on how they are run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.cep import Pattern, PatternProcessFunction
from penstock.common import Duration, Types
from penstock.datastream import (
    AggregateFunction,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from penstock.datastream import window as windows
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.operators.window.functions import ProcessAllWindowFunction

FAR = 10**9
"""After all records."""
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SIDE = OutputTag("side", PAIR)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def digest(values: Iterable[int]) -> int:
    """A number for a bag of numbers, whatever their order."""
    result = 7
    for value in sorted(values):
        result = (result * 31 + value) % 1_000_003
    return result


class Gather(KeyedProcessFunction):
    """All numbers of a key, once it is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(FAR)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), digest(self.seen.get())


class Echo(KeyedProcessFunction):
    """Each record again, by a timer, and a word to the side."""

    def __init__(self, delay: int) -> None:
        self.delay = delay

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.delay)
        if value[1] % 2:
            yield SIDE, (value[0], -value[1])
        else:
            yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp % 1000


class Steps(MapFunction):
    """The difference to the number before: needs order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def map(self, value: Any) -> Any:
        before = self.last.value() or 0
        self.last.update(value[1])
        return value[0], value[1] - before


class Split(ProcessFunction):
    """Odd numbers to the side."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] % 2:
            yield SIDE, value
        else:
            yield value


class Bag(ProcessWindowFunction):
    """The numbers of a window and its bounds."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window = context.window()
        span = (window.end - window.start) if isinstance(window, windows.TimeWindow) else 1
        yield key, digest([v for _, v in elements]) + span


class AllBag(ProcessAllWindowFunction):
    """The same for all keys together."""

    def process(self, context: Any, elements: Any) -> Iterator[Any]:
        yield "all", digest([v for _, v in elements])


class Average(AggregateFunction):
    """Count and sum."""

    def create_accumulator(self) -> Any:
        return "", 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return value[0], accumulator[1] + 1, accumulator[2] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], 1000 * accumulator[1] + accumulator[2]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


class BothMaps(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value[0], value[1] + 1

    def map2(self, value: Any) -> Any:
        return value[0], value[1] + 2


class BothFlatMaps(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value] * (value[1] % 2)

    def flat_map2(self, value: Any) -> Any:
        return [value, value]


class GatherBoth(KeyedCoProcessFunction):
    """Numbers of both inputs, once the key is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.left.add(value[1])
        ctx.timer_service().register_event_time_timer(FAR)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.right.add(value[1])
        ctx.timer_service().register_event_time_timer(FAR)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), digest(self.left.get()) - digest(self.right.get())


class Ruled(KeyedBroadcastProcessFunction):
    """Numbers of a key with all rules, once everything is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(FAR)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = sum(v for _, v in ctx.get_broadcast_state(RULES).items())
        yield ctx.get_current_key(), digest(self.seen.get()) + rules


class Counted(BroadcastProcessFunction):
    """Each record as it is; each rule once per subtask, which a keyed step then makes one."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


class Ask(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value[0], value[1] + 5)]


class Matched(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        first, second = match["first"][0], match["second"][0]
        yield first[0], 100 * first[1] + second[1]


UPS = (
    Pattern.begin("first")
    .where(lambda value: value[1] % 3 == 0)
    .followed_by("second")
    .where(lambda value: value[1] % 3 == 1)
    .within(Duration.of_millis(400))
)
