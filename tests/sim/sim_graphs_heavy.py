"""Graphs whose rows weigh much, or are many, in front of a step that is slow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.core import options
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import SimSink, SimSource
from penstock.testing.sim.environment import current

Env = StreamExecutionEnvironment
Build = Callable[[Env], object]
UNTIMED = WatermarkStrategy.no_watermarks()
END = 10_000_000


def numbers(splits: int, each: int) -> list[list[int]]:
    return [[split * 1000 + i for i in range(each)] for split in range(splits)]


def configure(env: Env, **settings: str) -> None:
    config = Configuration()
    for name, value in settings.items():
        config.set_string(getattr(options, name).key, value)
    env.configure(config)


class Slowly(AsyncFunction):
    """Takes its time, so that what comes before it has to wait."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(self._seconds)
        return [value]


def slowly(stream: Any, ms: float, capacity: int) -> Any:
    """The stream behind a step of its own that lets through ``capacity`` records in ``ms``."""
    return AsyncDataStream.ordered_wait(
        stream, Slowly(ms / 1000), Time.seconds(60), capacity
    ).start_new_chain()


# --- rows of all sizes, and steps that make many of one ----------------------------------------------

SIZES = (3, 300, 100_000, 40, 20_000)


def heavy(split: int, each: int) -> list[tuple[int, str]]:
    return [(split * 1000 + i, "x" * SIZES[i * 7 % 5]) for i in range(each)]


def at_once(row: tuple[int, str]) -> list[tuple[int, str]]:
    """Of some rows four that do not fit into a frame together."""
    return [(row[0], "x" * 60_000)] * 4 if row[0] % 30 == 1 else [row]


def heavy_rows(env: Env) -> None:
    """Rows of a few bytes and of a hundred kilobytes, to a step in the same slot that is slow."""
    configure(env, CHANNEL_BYTES="64 kb", BATCH_MAX_ROWS="4")
    source = SimSource([heavy(split, 90) for split in range(2)], rate=600.0)
    stream = env.from_source(source, UNTIMED, "rows").uid("rows")
    slow = slowly(stream, 12, 2).map(lambda row: (row[0], len(row[1]))).uid("measured")
    slow.sink_to(SimSink("out")).uid("out")
    more = stream.flat_map(at_once).rebalance()
    sent = more.map(lambda row: (row[0], len(row[1]))).uid("sent")
    sent.sink_to(SimSink("sent")).uid("sent out")


_ROWS = [row for split in range(2) for row in heavy(split, 90)]
HEAVY = {
    "out": [(number, len(text)) for number, text in _ROWS],
    "sent": [(number, len(text)) for row in _ROWS for number, text in at_once(row)],
}

LINES = 1_500
AHEAD = 600
"""Lines that may be made before the next step has seen them: two megabytes."""
LINE = "z" * 4_000


class Cut(KeyedProcessFunction):
    """A record becomes many lines; says so when nobody takes them."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for line in range(LINES if value % 40 == 7 else 1):
            look_ahead(+1)
            yield (value, line, LINE)


def look_ahead(change: int) -> None:
    """Count the lines that exist between two steps of a slot."""
    world = current()
    lines = world.notes[world.acting, "lines"] = world.notes.get((world.acting, "lines"), 0) + change
    if lines > AHEAD:
        raise world.broken(f"{lines} lines were made before the next step saw one")


class Take(MapFunction):
    def map(self, value: Any) -> Any:
        look_ahead(-1)
        return value[:2]


def cut_flat(value: int) -> Iterator[Any]:
    for line in range(LINES if value % 40 == 8 else 1):
        look_ahead(+1)
        yield (value, line, LINE)


def last_of(big: int) -> Callable[[Any], bool]:
    """Lets through the last line of each record, where those with ``big`` have many."""
    return lambda line: line[1] == (LINES if line[0] % 40 == big else 1) - 1


def many_lines(env: Env) -> None:
    stream = env.from_source(SimSource(numbers(2, 60)), UNTIMED, "numbers").uid("numbers")
    flat = stream.flat_map(cut_flat).map(Take()).filter(last_of(8))
    flat.sink_to(SimSink("flat")).uid("flat")
    cut = stream.key_by(lambda i: i % 5).process(Cut()).uid("cut").map(Take()).filter(last_of(7))
    cut.sink_to(SimSink("cut")).uid("cut out")


MANY_LINES = {
    sink: [(i, LINES - 1 if i % 40 == big else 0) for part in numbers(2, 60) for i in part]
    for sink, big in (("flat", 8), ("cut", 7))
}


# --- timers that go on although nobody takes what they emit -------------------------------------------

CHUNKS, CHUNK = 8, 40
TEXT = "y" * 1_000


class Ticking(KeyedProcessFunction):
    """Emits a chunk of rows at every tick of the clock; at the end it says how many chunks it owes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._left = runtime_context.get_state(ValueStateDescriptor("left"))

    def process_element(self, value: Any, ctx: Any) -> None:
        if self._left.value() is None:
            self._left.update(CHUNKS)
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 3
            )
            ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        left = self._left.value()
        if timestamp == END:
            self._left.update(0)
            yield (ctx.get_current_key(), left * CHUNK, "")
        elif left:
            self._left.update(left - 1)
            ctx.timer_service().register_processing_time_timer(timestamp + 3)
            for _ in range(CHUNK):
                yield (ctx.get_current_key(), 1, TEXT)


def pressed_timers(env: Env) -> None:
    configure(env, CHANNEL_BYTES="16 kb")
    stream = env.from_source(SimSource(numbers(2, 60), rate=60.0), UNTIMED, "numbers").uid("numbers")
    ticks = stream.key_by(lambda i: i % 4).process(Ticking()).uid("ticks")
    slow = slowly(ticks, 12, 80).map(lambda row: row[:2]).uid("slow")
    slow.sink_to(SimSink("out", view=totals)).uid("out")


def totals(rows: Iterable[Any]) -> list[Any]:
    found: Counter[Any] = Counter()
    for key, count in rows:
        found[key] += count
    return sorted(found.items())


class Closing(KeyedProcessFunction):
    """A timer for every window of its key, which emits more than the next step takes."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value[1] // WINDOW * WINDOW + WINDOW - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        for _ in range(CHUNK):
            yield (ctx.get_current_key(), 1, TEXT)


WINDOW = 300
CLOSED_KEYS, WINDOWS = 32, 4


def pressed_windows(env: Env) -> None:
    """All keys have timers for the same event time: one watermark sets off hundreds of rows."""
    configure(env, CHANNEL_BYTES="16 kb", CHECKPOINT_TIMEOUT="2 s")  # rows of all windows at once
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value[1]
    )
    times = range(0, WINDOW * WINDOWS, 20)
    source = SimSource([[(i % CLOSED_KEYS, time) for time in times for i in (time // 20, time // 20 + 16)]])
    stream = env.from_source(source, strategy, "clicks").uid("clicks")
    closed = stream.key_by(lambda click: click[0]).process(Closing()).uid("closed")
    slow = slowly(closed, 12, 80).map(lambda row: row[:2]).uid("slow")
    slow.sink_to(SimSink("out", view=totals)).uid("out")


def closings() -> list[Any]:
    times = range(0, WINDOW * WINDOWS, 20)
    seen = {((time // 20 + k) % CLOSED_KEYS, time // WINDOW) for time in times for k in (0, 16)}
    return sorted((key, count * CHUNK) for key, count in Counter(key for key, _ in seen).items())


PRESSED = {"out": [(key, CHUNKS * CHUNK) for key in range(4)]}


HEAVY_GRAPHS: dict[str, tuple[Build, dict[str, list[Any]]]] = {
    "heavy_rows": (heavy_rows, HEAVY),
    "many_lines": (many_lines, MANY_LINES),
    "pressed_timers": (pressed_timers, PRESSED),
    "pressed_windows": (pressed_windows, {"out": closings()}),
}
"""Graphs, and what they come to."""
