"""Graphs of an untidy world: odd names, heavy rows, functions that change what they get, thousands of splits.

What they come to is known by hand: a run without faults may be as wrong as the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sim_script_keys as keys
from sim_graphs_heavy import HEAVY, HEAVY_GRAPHS, UNTIMED, Build, Env, numbers

from penstock.common import Time
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.testing import Limits, SimScript, SimSink, SimSource
from penstock.testing.sim.environment import current
from penstock.testing.sim.faults import SIMULATED


@dataclass(frozen=True, slots=True)
class Extra:
    """What a graph has beside the job itself."""

    beside: tuple[Build, ...] = ()
    limits: Limits | None = None
    expected: dict[str, list[Any]] = field(default_factory=dict)
    faults: dict[str, float] = field(default_factory=dict)
    """What is to happen more often than elsewhere."""


# --- two jobs whose names are almost the same -----------------------------------------------------


class Sum(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield (ctx.get_current_key(), count)


def named(name: str, each: int = 80) -> Build:
    """A job of that name; all have the same steps."""

    def build(env: Env) -> None:
        stream = env.from_source(SimSource(numbers(2, each)), UNTIMED, "numbers").uid("numbers")
        counted = stream.key_by(lambda i: i % 5).process(Sum()).uid("count")
        counted.sink_to(SimSink(f"out of {name}")).uid("out")
        env.execute(name)

    return build


def counts(name: str, each: int = 80) -> dict[str, list[Any]]:
    found = Counter(i % 5 for part in numbers(2, each) for i in part)
    return {f"out of {name}": [(key, n + 1) for key, count in found.items() for n in range(count)]}


NAMES = {
    "names_brackets": ("orders (EU)", "orders [EU]"),
    "names_slashes": ("orders/eu", "orders eu"),
    "names_scripts": ("заказы", "注文"),
    "names_alike": ("caf\u00e9", "CAF\u00c9", "cafe"),
    "names_long": ("x" * 300 + "1", "x" * 300 + "2"),
    "names_odd": ("..", " \n", "🛒 سلة"),
}
"""Jobs that run side by side, with their checkpoints in one place."""


# --- functions that change what they are given --------------------------------------------------------


def basket(number: int) -> dict[str, Any]:
    return {"number": number, "seen": []}


def mark(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Changes its input and hands it on."""

    def change(row: dict[str, Any]) -> dict[str, Any]:
        row["seen"].append(name)
        return row

    return change


class Asked(AsyncFunction):
    """Changes its input before and after it waits."""

    async def async_invoke(self, value: dict[str, Any]) -> list[Any]:
        value["seen"].append("asked")
        await asyncio.sleep(0.02)
        value["seen"].append("answered")
        return [value]


class Keep(KeyedProcessFunction):
    """Keeps rows in state and emits them; what becomes of them behind it is nothing to the state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last"))
        self._all = runtime_context.get_list_state(ListStateDescriptor("all"))

    def process_element(self, value: dict[str, Any], ctx: Any) -> Iterator[Any]:
        kept = [row for row in (self._last.value(), *self._all.get()) if row is not None]
        if any(row["seen"] for row in kept):
            yield {"number": value["number"], "seen": ["the state was changed"]}
        for row in kept:
            row["seen"].append("read")  # what was read is no part of the state
        self._last.update(value)
        self._all.add(value)
        yield value


def changing_rows(env: Env) -> None:
    source = SimSource([[basket(i) for i in part] for part in numbers(2, 70)])
    stream = env.from_source(source, UNTIMED, "baskets").uid("baskets")
    stream.map(mark("left")).map(mark("on")).sink_to(SimSink("left")).uid("left")
    stream.map(mark("right")).sink_to(SimSink("right")).uid("right")
    stream.sink_to(SimSink("plain")).uid("plain")
    asked = AsyncDataStream.unordered_wait(stream, Asked(), Time.seconds(60), 8).uid("asked")
    asked.sink_to(SimSink("asked")).uid("asked out")
    kept = stream.key_by(lambda row: row["number"] % 3).process(Keep()).uid("kept")
    kept.map(mark("after")).sink_to(SimSink("kept")).uid("kept out")


CHANGING = {
    sink: [{"number": i, "seen": list(seen)} for part in numbers(2, 70) for i in part]
    for sink, seen in {
        "left": ("left", "on"),
        "right": ("right",),
        "plain": (),
        "asked": ("asked", "answered"),
        "kept": ("after",),
    }.items()
}


# --- ten thousand splits, almost all of them empty ----------------------------------------------------

SPLITS = 10_000


def many_splits(env: Env) -> None:
    data = [[number] if number % 50 == 0 else [] for number in range(SPLITS)]
    source = SimSource(data, rate=1e6, late_splits=SPLITS - 200, late_at_once=400)
    stream = env.from_source(source, UNTIMED, "files").uid("files")
    counted = stream.key_by(lambda i: i // 50 % 5).process(Sum()).uid("count")
    counted.sink_to(SimSink("out")).uid("out")


MANY_SPLITS = {"out": [(key, n + 1) for key in range(5) for n in range(SPLITS // 50 // 5)]}


# --- chains that are other ones at another parallelism --------------------------------------------------


def changing_chains(env: Env) -> None:
    """At two slots the first two steps are one task, at one and three they are not."""
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    source = SimSource(numbers(3, 150), rate=400.0)
    stream = env.from_source(source, UNTIMED, "numbers").uid("numbers")
    twice = stream.map(lambda i: i * 2).uid("twice").set_parallelism(2)
    counted = twice.key_by(lambda i: i % 5).process(Sum()).uid("count")
    counted.map(lambda row: row).uid("same").set_parallelism(1).sink_to(SimSink("out")).uid("out")


CHAINS = {
    "out": [
        (key, n + 1)
        for key, count in Counter(i * 2 % 5 for part in numbers(3, 150) for i in part).items()
        for n in range(count)
    ]
}


# --- a job that fails again and again, and one that lives long -------------------------------------------

STUMBLES = 30
"""More than a journal may have entries; fewer than take half a minute with the slowest commits."""


class Stumble(MapFunction):
    """Fails at one record many times, in every attempt."""

    def map(self, value: int) -> int:
        notes = current().notes
        if value == 40 and notes.get("stumbles", 0) < STUMBLES:
            notes["stumbles"] = notes.get("stumbles", 0) + 1
            raise RuntimeError(f"{SIMULATED}stumbled")
        return value


def stumbling(env: Env) -> None:
    stream = env.from_source(SimSource(numbers(1, 80)), UNTIMED, "numbers").uid("numbers")
    stream.map(Stumble()).uid("stumble").sink_to(SimSink("out")).uid("out")


def long_life(env: Env) -> None:
    """Little happens, except for some hundred checkpoints."""
    env.get_checkpoint_config().set_max_concurrent_checkpoints(2)
    stream = env.from_source(SimSource(numbers(1, 90), rate=30.0), UNTIMED, "numbers").uid("numbers")
    stream.map(lambda i: i).sink_to(SimSink("out")).uid("out")


WORLD_GRAPHS: dict[str, Build] = {
    **{graph: named(names[0]) for graph, names in NAMES.items()},
    "keys": SimScript(Path(keys.__file__)),
    "keys_rocks": SimScript(Path(keys.__file__), "job_on_disk"),
    **{graph: build for graph, (build, _) in HEAVY_GRAPHS.items()},
    "changing_rows": changing_rows,
    "many_splits": many_splits,
    "changing_chains": changing_chains,
    "stumbling": stumbling,
    "long_life": long_life,
}

EXTRAS: dict[str, Extra] = {
    **{
        graph: Extra(
            tuple(named(name, 40) for name in names[1:]),
            expected={**counts(names[0]), **{k: v for n in names[1:] for k, v in counts(n, 40).items()}},
        )
        for graph, names in NAMES.items()
    },
    "keys": Extra(expected={"out": keys.expected()}),
    "keys_rocks": Extra(expected={"out": keys.expected()}),
    **{graph: Extra(expected=expected) for graph, (_, expected) in HEAVY_GRAPHS.items()},
    "heavy_rows": Extra(limits=Limits(rows=12), expected=HEAVY),
    "changing_rows": Extra(expected=CHANGING),
    "many_splits": Extra(limits=Limits(state_bytes=120_000, remembered=12_000), expected=MANY_SPLITS),
    "changing_chains": Extra(
        expected=CHAINS, faults={"rescale": 1.0, "driver_crash": 0.02, "slow_channel": 0.6}
    ),
    "stumbling": Extra(expected={"out": [i for part in numbers(1, 80) for i in part]}),
    "long_life": Extra(expected={"out": [i for part in numbers(1, 90) for i in part]}),
}

SELDOM = {"many_splits", "keys_rocks", "long_life", "names_slashes", "names_alike", "names_long", "names_odd"}
"""Graphs that take long, or much like others: one turn in four is enough."""
