"""Program with keys and values of classes that it defines itself: counts, is killed and started again.

    script_keys.py MASTER WORK BACKEND [wait]

MASTER "here" runs in this process.  With "wait" the source stops in the middle, and "ready" is printed when
snapshots of that have been taken; the next run goes on from the last of them.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from flow_graphs import Pace, text_file_sink
from progress import TIMEOUT_S, environment, published, until

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.testing.local import local_cluster

COUNT, END = 600, 10_000_000


@dataclass(frozen=True)
class Place:
    name: str
    seen_at: int = field(default=0, compare=False)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: str
    right: Colour


class Shop:
    @dataclass(frozen=True, slots=True)
    class Shelf:
        number: int


class Account:
    """A value that no codec knows, and a plain class."""

    def __init__(self, colour: Colour) -> None:
        self.colour, self.count = colour, 0


def key_of(number: int) -> Any:
    """A key of one of all kinds, made anew for each record."""
    keys = (Place("a", number), Place("b", number), Colour.RED, Colour("blue"), Pair("x", Colour.BLUE))
    return (*keys, Shop.Shelf(7), (1, Colour.RED))[number % 7]


class Count(KeyedProcessFunction):
    """Counts in an object of the script; a timer at the end tells each key once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._account = runtime_context.get_state(ValueStateDescriptor("account"))
        self._colours = runtime_context.get_list_state(ListStateDescriptor("colours"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        account = self._account.value() or Account(Colour.BLUE)
        assert isinstance(account, Account) and account.colour is Colour.BLUE
        assert all(colour is Colour.RED for colour in self._colours.get())
        account.count += 1
        self._account.update(account)
        if account.count == 1:
            self._colours.add(Colour.RED)
        ctx.timer_service().register_event_time_timer(END)
        yield f"{shown(ctx.get_current_key())} {account.count}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"end {shown(ctx.get_current_key())} {self._account.value().count}"


def shown(key: Any) -> str:
    return f"Place {key.name}" if isinstance(key, Place) else str(key)


def expected() -> list[str]:
    """What the job writes in all its runs together."""
    lines: list[str] = []
    for kind in range(7):
        numbers = range(kind, COUNT, 7)
        lines += [f"{shown(key_of(kind))} {count + 1}" for count in range(len(numbers))]
        lines.append(f"end {shown(key_of(kind))} {len(numbers)}")
    return sorted(lines)


def main(master: str, work: Path, backend: str, waits: bool) -> None:
    with local_cluster() if master == "here" else nullcontext():
        settings = {
            "state__backend__type": backend,
            "execution__checkpointing__data-inline-threshold": "1 kb",
        }
        env = environment(master, work / "chk", **settings).set_parallelism(2)
        source = Pace(None, work / "gate" if waits else None).source(lambda number: number, COUNT)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream.key_by(key_of).process(Count()).uid("count").sink_to(text_file_sink(work / "out")).uid("out")
        client = env.execute_async("script keys")
        if waits:
            until(lambda: published(client._handle) >= 4, "snapshots are published")
            print("ready", flush=True)
        client.get_job_execution_result().result(TIMEOUT_S)
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], "wait" in sys.argv)
