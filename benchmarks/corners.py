"""Windows beside the well-trodden path: sessions, process(), count windows, evictors, triggers.

    python benchmarks/corners.py [name ...] [--events N] [--keys K] [--repeat R] [--in-process] [--rocksdb]

Each is a whole job at parallelism 2 with a checkpoint a second; the figure is the best of ``--repeat`` runs,
and results are checked in each: every event is in as many windows as it should be.  On Spark unless
``--in-process``, which runs both slots in this process and also prints processor seconds per million events:
on a machine that is busy with other things these say more than events a second.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from data import dataset
from workloads import STRATEGY, environment, warm_up

from penstock.columns import Count, Sum
from penstock.common import Time
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.datastream import AggregateFunction, ProcessWindowFunction
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.job import Program, run_as
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.testing.local import local_cluster


class NumberSink(Sink):
    """Adds up how many events the results say they are made of."""

    def __init__(self) -> None:
        self.events = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _NumberWriter(context)

    def on_driver_message(self, message: Any) -> None:
        self.events += message


class _NumberWriter(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self.context = context
        self.events = 0

    def write(self, batch: Batch) -> None:
        if batch.is_columnar:
            self.events += int(batch.columns.column("c").to_numpy().sum())
        else:
            self.events += sum(row[0] if type(row) is tuple else row["c"] for row in batch.to_rows())

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self.context.to_driver(self.events)


class Total(AggregateFunction):
    """Number and sum."""

    def create_accumulator(self) -> Any:
        return (0, 0.0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Totals(ProcessWindowFunction):
    """The same over all records of a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield len(elements), sum([element[1] for element in elements])


def minutes(keyed: Any) -> Any:
    return keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))


def sessions(keyed: Any) -> Any:
    return keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(5)))


def sliding(keyed: Any) -> Any:
    return keyed.window(SlidingEventTimeWindows.of(Time.minutes(1), Time.seconds(5)))


def early(keyed: Any) -> Any:
    """What came in each twenty seconds, and the rest at the end."""
    return minutes(keyed).trigger(PurgingTrigger.of(ContinuousEventTimeTrigger.of(Time.seconds(20))))


def patient(keyed: Any) -> Any:
    """Windows that are kept for late records."""
    return minutes(keyed).allowed_lateness(60_000)


WORK: dict[str, Callable[[Any], Any]] = {
    "tumbling aggregate": lambda keyed: minutes(keyed).aggregate(Total()),
    "tumbling process": lambda keyed: minutes(keyed).process(Totals()),
    "tumbling process trigger": lambda keyed: early(keyed).process(Totals()),
    "tumbling process evictor": lambda keyed: minutes(keyed).evictor(CountEvictor.of(1000)).process(Totals()),
    "tumbling aggregate lateness": lambda keyed: patient(keyed).aggregate(Total()),
    "tumbling process lateness": lambda keyed: patient(keyed).process(Totals()),
    "count process": lambda keyed: keyed.count_window(1).process(Totals()),
    "session process": lambda keyed: sessions(keyed).process(Totals()),
    "session aggregate": lambda keyed: sessions(keyed).aggregate(Total()),
    "session columns": lambda keyed: sessions(keyed).agg(Count("c"), Sum("amount", "s")),
    "sliding columns": lambda keyed: sliding(keyed).agg(Count("c"), Sum("amount", "s")),
}
IN_WINDOWS = {"sliding columns": 12}
"""In how many windows an event is, where that is not one."""


def job(name: str, data: Path, checkpoints: Path, rocksdb: bool) -> tuple[float, float, int]:
    """Wall and processor seconds of a run, and the events in its results."""
    settings = {"state_backend_type": "rocksdb"} if rocksdb else {}
    env = environment(checkpoints, **settings)
    sink = NumberSink()
    source = FileSource.parquet(str(data), columns=["user_id", "amount", "ts_ms"])
    WORK[name](env.from_source(source, STRATEGY, "events").key_by("user_id")).sink_to(sink)
    began = time.process_time()
    seconds = env.execute("bench-corner").get_net_runtime() / 1000
    return seconds, time.process_time() - began, sink.events


def measure(args: argparse.Namespace) -> None:
    data = dataset(args.home, args.events, args.keys)
    processor = f"{'CPU s/M':>8}" if args.in_process else ""
    print(f"{args.events:,} events, {args.keys:,} keys, parallelism 2, a checkpoint a second")
    print(f"{'work':<28}{'events/s':>12}{processor}")
    for name in args.what or WORK:
        walls, cpus = [], []
        for _ in range(args.repeat):
            with tempfile.TemporaryDirectory() as checkpoints:
                wall, cpu, found = job(name, data, Path(checkpoints), args.rocksdb)
            wanted = IN_WINDOWS.get(name, 1) * args.events
            if found != wanted:
                raise SystemExit(f"wrong result of {name}: {found} of {wanted} events")
            walls.append(wall)
            cpus.append(cpu)
        processor = f"{min(cpus) / args.events * 1e6:>8.2f}" if args.in_process else ""
        print(f"{name:<28}{args.events / min(walls):>12,.0f}{processor}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[[], *WORK])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    parser.add_argument("--in-process", action="store_true")
    parser.add_argument("--rocksdb", action="store_true")
    args = parser.parse_args()
    on: AbstractContextManager[Any] = run_as(Program(overrides={"penstock.spark.master": "local[2]"}))
    with local_cluster(slots=2) if args.in_process else on:
        if args.in_process:
            gc.set_threshold(200_000, 20, 50)  # as a slot has it
        else:
            warm_up()
        measure(args)


if __name__ == "__main__":
    main()
