"""The graphs of the simulation tests.  Their results do not depend on timing or parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sim_graphs_careless import CARELESS_GRAPHS
from sim_graphs_cep import patterns
from sim_graphs_changes import CHANGING_GRAPHS
from sim_graphs_frames import FRAME_GRAPHS
from sim_graphs_hybrid import hybrid
from sim_graphs_joins import JOIN_GRAPHS
from sim_graphs_rocks import on_disk, with_copies
from sim_graphs_sinks import TWO_PHASE_GRAPHS
from sim_graphs_unaligned import UNALIGNED_GRAPHS
from sim_graphs_windows import WINDOW_GRAPHS
from sim_graphs_world import EXTRAS, WORLD_GRAPHS, Extra

from penstock.columns import Count, Max, Sum
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.testing import Faults, Report, SimSink, SimSource, simulate
from penstock.testing.sim.simulation import Simulation

Env = StreamExecutionEnvironment
KEYS = 5
END = 10_000_000
"""A time after all records: timers for it fire when the input has ended."""


def numbers(splits: int, each: int) -> list[list[int]]:
    return [[split * 1000 + i for i in range(each)] for split in range(splits)]


def untimed() -> WatermarkStrategy:
    return WatermarkStrategy.no_watermarks()


def timed(bound_ms: int = 0) -> WatermarkStrategy:
    """Times are in the second field."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if bound_ms:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound_ms)
    return strategy.with_timestamp_assigner(lambda value, _: value[1])


# --- 1 and 2: a chain; a repartition with keyed state ---------------------------------------------


def chain(env: Env) -> None:
    stream = env.from_source(SimSource(numbers(3, 90)), untimed(), "numbers").uid("numbers")
    stream.map(lambda i: i * 3).filter(lambda i: i % 2 == 0).sink_to(SimSink("out")).uid("out")


class RunningSum(KeyedProcessFunction):
    """Emits how many records of its key there were, and their sum so far is checked at the end."""

    def __init__(self, expected: dict[Any, int]) -> None:
        self._expected = expected

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key = ctx.get_current_key()
        count, total = self._sum.value() or (0, 0)
        self._sum.update((count + 1, total + value))
        yield (key, count + 1)
        if count + 1 == self._expected[key]:
            yield (key, "sum", total + value)


def repartition(env: Env) -> None:
    data = numbers(2, 120)
    expected = dict(Counter(i % KEYS for part in data for i in part))
    stream = env.from_source(SimSource(data), untimed(), "numbers").uid("numbers")
    summed = stream.key_by(lambda i: i % KEYS).process(RunningSum(expected)).uid("sum")
    summed.sink_to(SimSink("out")).uid("out")


# --- 3: two inputs with timers --------------------------------------------------------------------


class Match(KeyedCoProcessFunction):
    """Orders meet payments; a timer reports orders nobody paid for."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._order = runtime_context.get_state(ValueStateDescriptor("order"))
        self._payment = runtime_context.get_state(ValueStateDescriptor("payment"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        if self._payment.value() is not None:
            self._payment.clear()
            yield f"{value[0]} paid"
            return
        self._order.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 600)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[str]:
        if self._order.value() is None:
            self._payment.update(True)
            return
        self._order.clear()
        yield f"{value[0]} paid"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        if self._order.value() is not None:
            self._order.clear()
            yield f"{ctx.get_current_key()} unpaid since {timestamp}"


def two_inputs(env: Env) -> None:
    orders = [[(i, i * 10) for i in range(s, 120, 2)] for s in range(2)]
    payments = [[(i, i * 10 + 150) for i in range(s, 120, 2) if i % 3] for s in range(2)]
    left = env.from_source(SimSource(orders, rate=100), timed(), "orders").uid("orders")
    right = env.from_source(SimSource(payments, rate=80), timed(), "payments").uid("payments")
    both = left.connect(right).key_by(lambda order: order[0], lambda payment: payment[0])
    both.process(Match()).uid("match").sink_to(SimSink("out")).uid("out")


# --- 4: broadcast state ---------------------------------------------------------------------------

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
RULE_COUNT = 12


class Apply(KeyedBroadcastProcessFunction):
    """Keeps records until all rules are there, then applies every rule to every record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = dict(ctx.get_broadcast_state(RULES).items())
        self._waiting.add(value)
        if len(rules) == RULE_COUNT:
            yield from self._apply(rules)
        else:
            ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(f"rule-{value}", value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield from self._apply(dict(ctx.get_broadcast_state(RULES).items()))

    def _apply(self, rules: dict[str, int]) -> Iterator[Any]:
        for value in self._waiting.get():
            yield (value, sum(value * factor for factor in rules.values()))
        self._waiting.clear()


def broadcast(env: Env) -> None:
    data = env.from_source(SimSource(numbers(2, 100)), untimed(), "data").uid("data")
    rules = env.from_source(SimSource([list(range(RULE_COUNT))], rate=25), untimed(), "rules").uid("rules")
    joined = data.key_by(lambda i: i % KEYS).connect(rules.broadcast(RULES)).process(Apply()).uid("apply")
    joined.sink_to(SimSink("out")).uid("out")


# --- 5 and 6: windows -----------------------------------------------------------------------------


class Describe(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        values = sorted(element[2] for element in elements)
        yield (key, context.window().start, context.window().end, len(values), sum(values))


def shuffled(split: int, each: int) -> list[tuple[int, int, int]]:
    """(key, time, number), out of order by less than 50 ms."""
    return [(i % KEYS, i * 10 + (i * 7919 % 5) * 9, split * 1000 + i) for i in range(each)]


def tumbling(env: Env) -> None:
    source = SimSource([shuffled(split, 100) for split in range(2)])
    stream = env.from_source(source, timed(50), "clicks").uid("clicks")
    windows = stream.key_by(lambda click: click[0]).window(TumblingEventTimeWindows.of(200))
    windows.process(Describe()).uid("windows").sink_to(SimSink("out")).uid("out")


LATE = OutputTag("late")
LATE_KEY = "late"


def sessions_with_late_data(split: int, each: int) -> list[tuple[Any, int, int]]:
    """Bursts of 20 records; every tenth record belongs to a key whose times lie far in the past."""
    records: list[tuple[Any, int, int]] = []
    for i in range(each):
        time = i * 10 + i // 20 * 500 + (i * 7919 % 5) * 9
        if i % 10 == 9:
            records.append((LATE_KEY, max(0, time - 600), split * 1000 + i))
        else:
            records.append((i % KEYS, time, split * 1000 + i))
    return records


def conserved(rows: list[Any]) -> list[Any]:
    """Sessions as they are; of the late key only the sum, since what is late depends on timing."""
    late = sum(row[4] for row in rows if row[0] == LATE_KEY)
    return [row for row in rows if row[0] != LATE_KEY] + [(LATE_KEY, late)]


def session(env: Env) -> None:
    source = SimSource([sessions_with_late_data(split, 100) for split in range(2)])
    stream = env.from_source(source, timed(50), "clicks").uid("clicks")
    windows = stream.key_by(lambda click: click[0]).window(EventTimeSessionWindows.with_gap(300))
    result = windows.side_output_late_data(LATE).process(Describe()).uid("sessions")
    late = result.get_side_output(LATE).map(lambda click: (click[0], click[1], click[1], 1, click[2]))
    result.union(late).sink_to(SimSink("out", view=conserved)).uid("out")


# --- 7 and 8: a union; two sinks ------------------------------------------------------------------


def union(env: Env) -> None:
    """One source ends early; the other goes on for long."""
    short, long = [list(range(500, 520))], numbers(2, 110)
    expected = dict(Counter(i % KEYS for part in (*short, *long) for i in part))
    first = env.from_source(SimSource(short), untimed(), "short").uid("short")
    second = env.from_source(SimSource(long), untimed(), "long").uid("long")
    both = first.union(second).key_by(lambda i: i % KEYS)
    both.process(RunningSum(expected)).uid("sum").sink_to(SimSink("out")).uid("out")


def two_sinks(env: Env) -> None:
    data = numbers(2, 110)
    expected = dict(Counter(i % KEYS for part in data for i in part))
    stream = env.from_source(SimSource(data), untimed(), "numbers").uid("numbers")
    stream.map(lambda i: ("raw", i)).sink_to(SimSink("raw")).uid("raw")
    summed = stream.key_by(lambda i: i % KEYS).process(RunningSum(expected)).uid("sum")
    summed.sink_to(SimSink("sums")).uid("sums")


# --- 9: columns, with their own kind of state -----------------------------------------------------


def make_orders(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"country": index % KEYS, "amount": index * 3 % 101, "ts": index * 5})


def columns(env: Env) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(make_orders, 300, 900.0, columns=True)
    orders = env.from_source(source, strategy, "orders").uid("orders")
    windows = orders.key_by("country").window(TumblingEventTimeWindows.of(150))
    result = windows.agg(Count("orders"), Sum("amount", "total"), Max("amount", "largest"))
    result.uid("windows").sink_to(SimSink("out")).uid("out")


# --- 10: splits that appear while the job runs ----------------------------------------------------


def discovery(env: Env) -> None:
    data = numbers(6, 40)
    expected = dict(Counter(i % KEYS for part in data for i in part))
    stream = env.from_source(SimSource(data, late_splits=4), untimed(), "numbers").uid("numbers")
    summed = stream.key_by(lambda i: i % KEYS).process(RunningSum(expected)).uid("sum")
    summed.sink_to(SimSink("out")).uid("out")


ON_DISK = {
    "two_inputs_rocks": two_inputs,
    "session_rocks": session,
    "patterns_rocks": patterns,
    "shared_panes_rocks": WINDOW_GRAPHS["shared_panes"],
}
"""Graphs that also run with their state on disk; new drivers may move it to the heap and back."""


def concurrent(build: Callable[[Env], None], most: int) -> Callable[[Env], None]:
    """The graph with up to so many checkpoints in flight, which then follow each other quickly."""

    def changed(env: Env) -> None:
        env.get_checkpoint_config().set_max_concurrent_checkpoints(most)
        build(env)

    return changed


GRAPHS: dict[str, Callable[[Env], None]] = {
    "chain": chain,
    "repartition": repartition,
    "two_inputs": two_inputs,
    "broadcast": broadcast,
    "tumbling": tumbling,
    "session": session,
    "union": union,
    "two_sinks": two_sinks,
    "columns": columns,
    "discovery": discovery,
    "hybrid": hybrid,
    "concurrent_2": concurrent(repartition, 2),
    "concurrent_3": concurrent(union, 3),
    **UNALIGNED_GRAPHS,
    **CARELESS_GRAPHS,
    **CHANGING_GRAPHS,
    **FRAME_GRAPHS,
    **JOIN_GRAPHS,
    **WINDOW_GRAPHS,
    **TWO_PHASE_GRAPHS,
    "patterns": patterns,
    **{name: on_disk(build) for name, build in ON_DISK.items()},
    "near_copies": with_copies(repartition),
    "near_copies_rocks": with_copies(on_disk(two_inputs)),
    **WORLD_GRAPHS,
}

DRAINED = {
    "chain",
    "repartition",
    "union",
    "two_sinks",
    "discovery",
    "concurrent_2",
    "concurrent_3",
    "unaligned_chain",
    "unaligned_timeout",
    "unaligned_chains",
    *CARELESS_GRAPHS,
    *TWO_PHASE_GRAPHS,
}
"""Graphs that know no event time: ending it early changes nothing."""


def played(graph: str, seeds: Iterable[int]) -> Report:
    """A graph under some seeds, with everything that may happen to it."""
    extra = EXTRAS.get(graph, Extra())
    return simulate(
        GRAPHS[graph],
        seeds,
        faults_of(graph),
        name=graph,
        other=ON_DISK.get(graph),
        beside=extra.beside,
        limits=extra.limits,
        expected=extra.expected or None,
    )


def simulation_of(graph: str, slots: int = 2) -> Simulation:
    """A graph of :data:`GRAPHS`, compiled by the engine as it is now."""
    extra = EXTRAS.get(graph, Extra())
    expected = extra.expected or None
    return Simulation(GRAPHS[graph], slots, graph, ON_DISK.get(graph), extra.beside, extra.limits, expected)


def faults_of(graph: str) -> Faults:
    """Everything that may happen to a graph."""
    more = EXTRAS.get(graph, Extra()).faults
    if graph.startswith("near_copies"):
        more = {**more, "bad_copy": 0.5}
    return replace(Faults.all(), **more, **({"drain": 0.01} if graph in DRAINED else {}))
