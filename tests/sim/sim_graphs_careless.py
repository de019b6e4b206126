"""Graphs of functions that change what they get, keep and emit: nobody else may see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction, RuntimeContext
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.testing import SimSink, SimSource

KEYS = 4
RATE = 400.0
Words = dict[str, Any]


def worn(row: Words) -> Words:
    """Changes a record in place, and hands it on."""
    row["wear"] += 1
    row["marks"].append(row["wear"])
    return row


def plain(name: str) -> Callable[[Words], tuple[Any, ...]]:
    return lambda row: (name, row["split"], row["number"], row["wear"], *row["marks"])


class Keeper(KeyedProcessFunction):
    """Stores its input and changes it afterwards; emits its state, which is then changed as well."""

    def open(self, runtime_context: RuntimeContext) -> None:
        anything = Types.PICKLED_BYTE_ARRAY()
        self._count = runtime_context.get_state(ValueStateDescriptor("count", anything))
        self._rows = runtime_context.get_list_state(ListStateDescriptor("rows", anything))

    def process_element(self, value: Words, ctx: Any) -> Iterator[Words]:
        count = self._count.value() or {"split": "count", "number": 0, "wear": 0, "marks": []}
        count["number"] += 1
        self._count.update(count)
        self._rows.add(value)
        worn(value)
        yield count
        yield from (row for row in self._rows.get() if row["wear"])


class Asker(AsyncFunction[Words, Words]):
    """Changes its input long before it has its answer."""

    async def async_invoke(self, value: Words) -> list[Words]:
        worn(value)
        await asyncio.sleep(0.01 * (1 + value["number"] % 5))
        return [value]


def rows_of(env: Env) -> Any:
    data = [[(split, number) for number in range(120)] for split in range(3)]
    stream = env.from_source(SimSource(data, rate=RATE), WatermarkStrategy.no_watermarks(), "records")
    made = lambda value: {"split": value[0], "number": value[1], "wear": 0, "marks": []}  # noqa: E731
    return stream.uid("records").map(made).uid("made")


def careless_branches(env: Env) -> None:
    rows = rows_of(env)
    left = rows.map(worn).uid("left").map(plain("left")).uid("plain left")
    right = rows.rebalance().map(worn).uid("right").map(plain("right")).uid("plain right")
    left.union(right).sink_to(SimSink("out")).uid("out")


def careless_state(env: Env) -> None:
    kept = rows_of(env).key_by(lambda row: row["number"] % KEYS).process(Keeper()).uid("keeper")
    kept.map(worn).uid("worn").map(plain("kept")).uid("plain").sink_to(SimSink("out")).uid("out")


def careless_requests(env: Env) -> None:
    asked = AsyncDataStream.unordered_wait(rows_of(env), Asker(), 0, 20).uid("asker")
    asked.map(plain("asked")).uid("plain").sink_to(SimSink("out")).uid("out")


CARELESS_GRAPHS: dict[str, Callable[[Env], None]] = {
    "careless_branches": careless_branches,
    "careless_state": careless_state,
    "careless_requests": careless_requests,
}
