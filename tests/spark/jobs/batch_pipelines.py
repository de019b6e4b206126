"""Random pipelines whose final results do not depend on how they are run: a seed gives the whole program.

Records are pairs of a key and a number.  ``Course`` remembers what may be relied upon at a point of the
program: ``fresh`` says that no two records of a key have the same time, ``ordered`` that those of a key
arrive in order of time, also in a stream.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.cep import CEP, Pattern, PatternProcessFunction
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    AsyncDataStream,
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
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream import window as windows
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.operators.columnar import Count, Max, Sum
from penstock.operators.window.functions import ProcessAllWindowFunction

FAR = 10**9
"""After all records."""
SPAN = 2000
SIDE = OutputTag("side", Types.TUPLE([Types.STRING(), Types.LONG()]))
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


# --- functions ----------------------------------------------------------------------------------


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


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """A stream and what may be relied upon."""

    stream: Any
    fresh: bool = True
    ordered: bool = True

    def then(self, stream: Any, **changes: Any) -> Course:
        """The next step's results."""
        return replace(self, stream=stream, **changes)

    def results(self, stream: Any) -> Course:
        """Results of a step that mixes records: times may meet, order is lost."""
        return Course(stream, False, False)


def key(value: Any) -> str:
    """The key of a pair."""
    found: str = value[0]
    return found


def assigner(rng: random.Random) -> Any:
    """Some windows of event time."""
    size = rng.choice([50, 100, 333])
    return rng.choice(
        [
            windows.TumblingEventTimeWindows.of(Time.milliseconds(size)),
            windows.SlidingEventTimeWindows.of(Time.milliseconds(2 * size), Time.milliseconds(size)),
            windows.SlidingEventTimeWindows.of(Time.milliseconds(3 * size), Time.milliseconds(2 * size)),
            windows.EventTimeSessionWindows.with_gap(Time.milliseconds(size)),
        ]
    )


def fixed(rng: random.Random) -> Any:
    """Some windows that columns can be aggregated in."""
    size = rng.choice([50, 120])
    return rng.choice(
        [
            windows.TumblingEventTimeWindows.of(Time.milliseconds(size)),
            windows.SlidingEventTimeWindows.of(Time.milliseconds(2 * size), Time.milliseconds(size)),
        ]
    )


def stateless(rng: random.Random, c: Course) -> Course:
    s = c.stream
    done: Course = rng.choice(
        [
            lambda: c.then(s.map(lambda v: (v[0], 3 * v[1] + 1), PAIR)),
            lambda: c.then(s.filter(lambda v: v[1] % 3 != 0)),
            lambda: c.then(s.flat_map(lambda v: [v] * (v[1] % 3), PAIR), fresh=False),
            lambda: c.then(s.map(lambda v: (f"m{v[1] % 4}", v[1]), PAIR)),
        ]
    )()
    # Several subtasks would not keep the order.
    return done.then(done.stream.set_parallelism(1)) if c.ordered else done


def partitioned(rng: random.Random, c: Course) -> Course:
    s = c.stream
    spread = rng.choice(
        [
            lambda: s.rebalance(),
            lambda: s.shuffle(),
            lambda: s.rescale(),
            lambda: s.global_(),
            lambda: s.partition_custom(lambda k, n: len(k) % n, key),
        ]
    )()
    moved = spread.map(lambda v: v, PAIR)
    if rng.random() < 0.5:
        moved = moved.set_parallelism(rng.randint(1, 3))
    return c.then(moved, ordered=False)


def united(rng: random.Random, c: Course) -> Course:
    odd, even = c.stream.filter(lambda v: v[1] % 2 == 1), c.stream.filter(lambda v: v[1] % 2 == 0)
    return c.then(odd.map(lambda v: (v[0], v[1] + 4), PAIR).union(even), ordered=False)


def to_the_side(rng: random.Random, c: Course) -> Course:
    split = c.stream.process(Split(), PAIR)
    return c.then(split.union(split.get_side_output(SIDE).map(lambda v: v, PAIR)), ordered=False)


def timed(rng: random.Random, c: Course) -> Course:
    echo = c.stream.key_by(key).process(Echo(rng.choice([1, 40, 500])), PAIR)
    return c.results(echo.union(echo.get_side_output(SIDE)))


def gathered(rng: random.Random, c: Course) -> Course:
    return c.results(c.stream.key_by(key).process(Gather(), PAIR))


def windowed(rng: random.Random, c: Course) -> Course:
    w = c.stream.key_by(key).window(assigner(rng))
    if rng.random() < 0.3:
        w = w.allowed_lateness(rng.choice([10, 1000]))
    done = rng.choice(
        [
            lambda: w.reduce(lambda a, b: (a[0], a[1] + b[1])),
            lambda: w.aggregate(Average(), output_type=PAIR),
            lambda: w.process(Bag(), PAIR),
            lambda: w.aggregate(Average(), window_function=Bag(), output_type=PAIR),
        ]
    )()
    return c.results(done)


def window_all(rng: random.Random, c: Course) -> Course:
    return c.results(c.stream.window_all(assigner(rng)).process(AllBag(), PAIR))


def named(stream: Any) -> Any:
    return stream.map(lambda v: Row(k=v[0], v=v[1]), NAMED)


def arrow(stream: Any) -> Any:
    return named(stream).map_batches(lambda batch: batch)


def columns(rng: random.Random, c: Course) -> Course:
    w = (
        rng.choice([named, arrow])(c.stream)
        .key_by("k")
        .window(fixed(rng) if rng.random() < 0.8 else assigner(rng))
    )
    found = w.agg(Count("n"), Sum("v", "s"), Max("v", "m"))
    return c.results(found.map(lambda r: (r["k"], 10000 * r["n"] + 3 * r["s"] + r["m"]), PAIR))


def other_side(c: Course) -> Any:
    return c.stream.filter(lambda v: v[1] % 4 < 2).map(lambda v: (v[0], v[1] + 1), PAIR)


def connected(rng: random.Random, c: Course) -> Course:
    both = c.stream.connect(other_side(c))
    return rng.choice(
        [
            lambda: c.results(both.map(BothMaps(), PAIR)),
            lambda: c.results(both.flat_map(BothFlatMaps(), PAIR)),
            lambda: c.results(both.key_by(key, key).process(GatherBoth(), PAIR)),
        ]
    )()


def joined(rng: random.Random, c: Course) -> Course:
    other, how = other_side(c), rng.choice(["inner", "left", "full"])

    def pair(left: Any, right: Any) -> Any:
        return (left or right)[0], 7 * (left[1] if left else -1) + (right[1] if right else -3)

    def group(left: Any, right: Any) -> Any:
        yield "g", digest(v[1] for v in left) - digest(v[1] for v in right)

    def window_join() -> Any:
        return c.stream.join(other, how).where(key).equal_to(key).window(assigner(rng)).apply(pair, PAIR)

    def co_group() -> Any:
        return c.stream.co_group(other).where(key).equal_to(key).window(assigner(rng)).apply(group, PAIR)

    def interval_join() -> Any:
        sides = c.stream.key_by(key).interval_join(other.key_by(key), how)
        return sides.between(Time.milliseconds(-70), Time.milliseconds(30)).process(pair, PAIR)

    def window_columns() -> Any:
        sides = arrow(c.stream).join(arrow(other)).where("k").equal_to("k")
        found = sides.window(fixed(rng)).columns()
        return found.map(lambda r: (r["k"], 7 * r["v_left"] + r["v_right"]), PAIR)

    def interval_columns() -> Any:
        sides = arrow(c.stream).key_by("k").interval_join(arrow(other).key_by("k"))
        found = sides.between(Time.milliseconds(-70), Time.milliseconds(30)).columns()
        return found.map(lambda r: (r["k"], 7 * r["v_left"] + r["v_right"]), PAIR)

    kinds: list[Callable[[], Any]] = [window_join, co_group, interval_join, window_columns, interval_columns]
    return c.results(rng.choice(kinds)())


def versions(rng: random.Random, c: Course) -> Course:
    """Needs times that do not meet: of two versions with one time the last to arrive counts."""
    joined_ = c.stream.key_by(key).temporal_join(other_side(c).key_by(key), "left")
    return c.results(joined_.process(lambda v, w: (v[0], 5 * v[1] + (w[1] if w else -1)), PAIR))


def pattern(rng: random.Random, c: Course) -> Course:
    return c.results(CEP.pattern(c.stream.key_by(key), UPS).process(Matched(), PAIR))


def ruled(rng: random.Random, c: Course) -> Course:
    rules = c.stream.filter(lambda v: v[1] % 5 == 0).map(lambda v: (f"{v[0]}{v[1]}", v[1]), PAIR)
    if rng.random() < 0.3:
        return c.then(c.stream.connect(rules.broadcast(RULES)).process(Counted(), PAIR), ordered=False)
    return c.results(c.stream.key_by(key).connect(rules.broadcast(RULES)).process(Ruled(), PAIR))


def asked(rng: random.Random, c: Course) -> Course:
    wait = rng.choice([AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
    return c.then(wait(c.stream, Ask(), Time.seconds(60), 3, PAIR), ordered=False)


def in_order(rng: random.Random, c: Course) -> Course:
    """What depends on the order within a key."""
    keyed = c.stream.key_by(key)
    return c.results(
        rng.choice(
            [
                lambda: keyed.map(Steps(), PAIR),
                lambda: keyed.count_window(3).process(Bag(), PAIR),
                lambda: keyed.count_window(4, 2).process(Bag(), PAIR),
            ]
        )()
    )


ANY = [
    stateless, stateless, partitioned, united, to_the_side, timed, gathered, windowed, windowed, windowed,
    window_all, columns, columns, connected, joined, joined, ruled, asked,
]  # fmt: skip


# --- programs -----------------------------------------------------------------------------------


def step(rng: random.Random, course: Course) -> Course:
    """A random step among those that may stand here."""
    kinds = list(ANY)
    if course.fresh:
        kinds += [versions, pattern, pattern]
    if course.fresh and course.ordered:
        kinds += [in_order] * len(kinds)
    return rng.choice(kinds)(rng, course)


def source(env: StreamExecutionEnvironment, rng: random.Random, ordered: bool, scrambled: bool) -> Any:
    """Some records with times that are all different, in order or not quite, or not at all."""
    count = rng.choice([0, 1, 12, 40, 40, 70])
    times = sorted(rng.sample(range(SPAN), count))
    keys = [f"k{n}" for n in range(rng.choice([1, 3, 6]))]
    records = [(rng.choice(keys), rng.randrange(50), time) for time in times]
    if not ordered:
        records.sort(key=lambda record: record[2] + rng.randrange(100))
    if scrambled:
        random.Random(count).shuffle(records)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(0 if ordered else 100)
    ).with_timestamp_assigner(lambda record, _: record[2])
    stream = env.from_collection(records).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    return stream.map(lambda record: (record[0], record[1]), PAIR).set_parallelism(1)


def build(seed: int, env: StreamExecutionEnvironment, scrambled: bool) -> tuple[Any, bool]:
    """The stream of results, and whether only the last one of each key counts.

    ``scrambled`` mixes the input up, which must not matter in BATCH mode.
    """
    rng = random.Random(seed)
    env.set_parallelism(rng.choice([1, 2, 2, 3]))
    env.set_max_parallelism(rng.choice([4, 128]))
    if rng.random() < 0.1:
        env.disable_operator_chaining()
    ordered = rng.random() < 0.4
    course = Course(source(env, rng, ordered, scrambled), ordered=ordered)
    if rng.random() < 0.2:
        course = Course(course.stream.union(source(env, rng, ordered, scrambled)), False, False)
    for _ in range(rng.randint(1, 3)):
        course = step(rng, course)
    if rng.random() < 0.25:
        counted = course.stream.map(lambda v: (v[0], v[1], 1))
        return counted.key_by(key).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])), True
    return course.stream, False


def outcome(seed: int, mode: RuntimeExecutionMode) -> Counter[Any]:
    """Run a program; its final results."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    stream, last_only = build(seed, env, mode is RuntimeExecutionMode.BATCH)
    found = list(stream.execute_and_collect())
    if last_only and mode is RuntimeExecutionMode.STREAMING:
        newest: dict[Any, Any] = {}
        for value in found:
            if value[0] not in newest or newest[value[0]][2] < value[2]:
                newest[value[0]] = value
        found = list(newest.values())
    return Counter(tuple(value) for value in found)
