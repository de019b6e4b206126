"""The steps that random pipelines are made of.

``Course`` remembers what may be relied upon at a point of the program: ``fresh`` says that no two records of
a key have the same time, ``ordered`` that those of a key arrive in order of time, also in a stream.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from batch_functions import (
    PAIR,
    RULES,
    SIDE,
    UPS,
    AllBag,
    Ask,
    Average,
    Bag,
    BothFlatMaps,
    BothMaps,
    Counted,
    Echo,
    Gather,
    GatherBoth,
    Matched,
    Ruled,
    Split,
    Steps,
    digest,
)

from penstock.cep import CEP
from penstock.columns import Count, Max, Sum
from penstock.common import Row, Time, Types
from penstock.datastream import AsyncDataStream
from penstock.datastream import window as windows

NAMED = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


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
