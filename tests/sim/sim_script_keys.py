"""A job as a script: its keys are of classes that only the script has, and of all other kinds.

Every driver runs the script again, so the classes are new ones each time; state must be found all the same.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from sim_graphs_rocks import on_disk

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import SimSink, SimSource

EACH = 8
"""Records of each key in each split."""
END = 10_000_000
NOON = dt.datetime(2024, 2, 29, 12)  # noqa: DTZ001 - a naive one is the harder case


@dataclass(frozen=True)
class Sensor:
    name: str
    note: str = field(default="", compare=False)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 71
    HIGH = 72


class Place(NamedTuple):
    row: int
    column: str


def key_of(label: str, n: int) -> Any:
    """The ``n``-th time that this key is made: equal to the others, not always alike."""
    kind, _, number = label.partition(" ")
    i = int(number or 0)
    if kind == "sensor":
        return Sensor(f"s{i}", note=f"seen {n}")
    if kind == "colour":
        return list(Colour)[i]
    if kind == "level":
        return list(Level)[i]
    if kind == "place":
        return Place(i, "ä")
    if kind == "nested":
        return (Place(i, "x"), (Sensor("in", str(n)), (i, None)))
    if kind == "decimal":
        return decimal.Decimal(f"{i}.12345678901234567890" + "0" * (n % 3))
    if kind == "time":
        moment = NOON + dt.timedelta(seconds=i)
        return pd.Timestamp(moment) if n % 2 else moment
    return float("nan")


KINDS = {"sensor": 4, "colour": 2, "level": 2, "place": 4, "nested": 3, "decimal": 6, "time": 4, "nan": 1}
LABELS = [f"{kind} {i}" for kind, count in KINDS.items() for i in range(count)]


class Count(KeyedProcessFunction):
    """How many records of its key there were, and how often its timer fired."""

    def open(self, runtime_context: RuntimeContext) -> None:
        # Whatever precision a thread has: the same keys are the same.
        decimal.getcontext().prec = 5 + runtime_context.get_index_of_this_subtask()
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        ctx.timer_service().register_event_time_timer(END)
        yield (value[0], count)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ("at the end", _label(ctx.get_current_key()), self._count.value())


def _label(key: Any) -> str:
    """The label that a key was made from, whatever process the key comes from."""
    return next(label for label in LABELS if repr_of(key_of(label, 0)) == repr_of(key))


def repr_of(key: Any) -> str:
    if isinstance(key, tuple):
        return f"({', '.join(map(repr_of, key))})"
    if isinstance(key, decimal.Decimal):
        return str(float(key))
    return str(key.name if type(key).__name__ == "Sensor" else key)


def records() -> list[list[tuple[str, int]]]:
    return [
        [(LABELS[(i * 7 + split) % len(LABELS)], i * 2 + split) for i in range(EACH * len(LABELS))]
        for split in range(2)
    ]


def job(env: StreamExecutionEnvironment) -> None:
    source = SimSource(records(), rate=600.0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").uid("records")
    counted = stream.key_by(lambda record: key_of(*record)).process(Count()).uid("count")
    counted.sink_to(SimSink("out")).uid("out")


def job_on_disk(env: StreamExecutionEnvironment) -> None:
    on_disk(job)(env)


def expected() -> list[Any]:
    """By hand: the engine's own word does not count here."""
    counts = Counter(label for part in records() for label, _ in part)
    rows: list[Any] = [(label, n + 1) for label, count in counts.items() for n in range(count)]
    return rows + [("at the end", label, count) for label, count in counts.items()]
