"""A Python function over all records of a key in order of time, in BATCH and in PySpark's own ways.

    python benchmarks/batch_rows.py [way ...] [--events N] [--keys K] [--repeat R]

The function (:class:`Rises`) counts how often the amounts of a user rose, and adds up the rises: it needs the
records of a key in order of time, and sees one after the other.  Each way gives one result a key; their sum
is checked.  All run in one session, by turns, warmed up on little; the figures are the least processor
seconds of ``--repeat`` runs, of the driver, the JVM and all Python workers together, and the least time.

* penstock: ``key_by`` and a ``KeyedProcessFunction`` whose state is the object, a timer for the result;
* penstock window: ``key_by``, one global window, ``process`` over the elements sorted by time;
* applyInPandas: ``groupBy``, the frame sorted by time, the function over its column;
* mapInArrow: ``repartition``, ``sortWithinPartitions``, the function over columns as lists;
* RDD: ``groupByKey`` over pairs, sorted by time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from usage import Usage

Result = tuple[int, int, int]
"""How many keys, how many rises, and their sum."""
FILES = 4
FIRST_MS = 1_767_225_600_000


class Rises:
    """What is known of a key: fed one amount after the other."""

    __slots__ = ("last", "rises", "total")

    def __init__(self) -> None:
        self.last, self.rises, self.total = 1 << 62, 0, 0

    def add(self, amount: int) -> None:
        """The next amount."""
        if amount > self.last:
            self.rises += 1
            self.total += amount - self.last
        self.last = amount


def columns(events: int, keys: int) -> tuple[Any, Any, Any]:
    """User, time and amount of each event; no two of a user have the same time."""
    rng = np.random.default_rng(7)
    times = FIRST_MS + rng.permutation(events)
    return rng.integers(0, keys, events), times, rng.integers(0, 10_000, events)


def make_files(root: Path, events: int, keys: int) -> Path:
    """The events, the same for the same numbers; made once."""
    place = root / f"rows-{events}-{keys}"
    if not (place / "_SUCCESS").exists():
        place.mkdir(parents=True, exist_ok=True)
        table = pa.table(dict(zip(("user", "ts", "amount"), columns(events, keys), strict=True)))
        for number in range(FILES):
            start, stop = number * events // FILES, (number + 1) * events // FILES
            part = table.slice(start, stop - start)
            pq.write_table(part, place / f"part-{number}.parquet")
        (place / "_SUCCESS").touch()
    return place


def truth(events: int, keys: int) -> Result:
    """By sorting."""
    users, times, amounts = columns(events, keys)
    order = np.lexsort((times, users))
    users, amounts = users[order], amounts[order]
    rise = np.diff(amounts)[np.diff(users) == 0]
    return len(np.unique(users)), int((rise > 0).sum()), int(rise[rise > 0].sum())


def summed(results: Any) -> Result:
    """One result a key, added up."""
    found = [tuple(result) for result in results]
    return len(found), sum(int(rises) for rises, _ in found), sum(int(total) for _, total in found)


# --- the ways ------------------------------------------------------------------------------------


def keyed_events(files: Path) -> Any:
    """The events as a BATCH program has them, by user."""
    from penstock.common import Configuration, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.file_system import FileSource

    config = Configuration.from_dict(
        {"execution.runtime-mode": "BATCH", "penstock.spark.master": "local[2]", "parallelism.default": "2"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(config)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    parts = sorted(str(part) for part in files.glob("*.parquet"))
    return env.from_source(FileSource.parquet(*parts), by_time, "events").key_by("user")


def penstock(files: Path) -> Result:
    from penstock.datastream import KeyedProcessFunction
    from penstock.datastream.state import ValueStateDescriptor

    class ByState(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.known = runtime_context.get_state(ValueStateDescriptor("known"))

        def process_element(self, value: Any, ctx: Any) -> None:
            known = self.known.value()
            if known is None:
                known = (1 << 62, 0, 0)
                ctx.timer_service().register_event_time_timer(1 << 60)
            last, rises, total = known
            amount = value[2]
            rise = amount - last
            self.known.update((amount, rises + 1, total + rise) if rise > 0 else (amount, rises, total))

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
            yield self.known.value()[1:]

    return summed(keyed_events(files).process(ByState()).execute_and_collect())


def penstock_window(files: Path) -> Result:
    from penstock.datastream import ProcessWindowFunction
    from penstock.datastream.window import GlobalWindows

    class Whole(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Iterator[tuple[int, int]]:
            found = Rises()
            for element in elements:  # BATCH brings those of a key in order of time
                found.add(element[2])
            yield found.rises, found.total

    windows = keyed_events(files).window(GlobalWindows.create_with_end_of_stream_trigger())
    return summed(windows.process(Whole()).execute_and_collect())


def events_frame(files: Path) -> Any:
    """The events as a DataFrame."""
    from pyspark.cloudpickle import register_pickle_by_value
    from pyspark.sql import SparkSession

    if __name__ != "__main__":
        register_pickle_by_value(sys.modules[__name__])  # Spark's workers do not find it
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark.read.parquet(str(files))


def apply_in_pandas(files: Path) -> Result:
    def whole(frame: Any) -> Any:
        import pandas

        found = Rises()
        for amount in frame.sort_values("ts")["amount"].tolist():
            found.add(amount)
        return pandas.DataFrame({"rises": [found.rises], "total": [found.total]})

    grouped = events_frame(files).groupBy("user").applyInPandas(whole, "rises long, total long")
    return summed(grouped.collect())


def map_in_arrow(files: Path) -> Result:
    def whole(batches: Iterator[Any]) -> Iterator[Any]:
        found, user, done = Rises(), None, []
        for batch in batches:
            for key, amount in zip(batch["user"].to_pylist(), batch["amount"].to_pylist(), strict=True):
                if key != user:
                    if user is not None:
                        done.append((found.rises, found.total))
                    found, user = Rises(), key
                found.add(amount)
        if user is not None:
            done.append((found.rises, found.total))
        rises, totals = zip(*done, strict=True) if done else ((), ())
        yield pa.RecordBatch.from_pydict(
            {"rises": pa.array(rises, pa.int64()), "total": pa.array(totals, pa.int64())}
        )

    sorted_events = events_frame(files).repartition(2, "user").sortWithinPartitions("user", "ts")
    return summed(sorted_events.mapInArrow(whole, "rises long, total long").collect())


def rdd(files: Path) -> Result:
    def whole(values: Any) -> tuple[int, int]:
        found = Rises()
        for _, amount in sorted(values):
            found.add(amount)
        return found.rises, found.total

    pairs = events_frame(files).rdd.map(lambda row: (row[0], (row[1], row[2])))
    return summed(pairs.groupByKey(2).mapValues(whole).values().collect())


WAYS: dict[str, Callable[[Path], Result]] = {
    "penstock": penstock,
    "penstock window": penstock_window,
    "applyInPandas": apply_in_pandas,
    "mapInArrow": map_in_arrow,
    "RDD": rdd,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", choices=[[], *WAYS])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(".bench/batch"))
    args = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    files, warm = make_files(args.data, args.events, args.keys), make_files(args.data, 20_000, 100)
    expected = truth(args.events, args.keys)
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session.config("spark.driver.memory", "2g").getOrCreate()
    ways = args.ways or list(WAYS)
    for way in ways:
        WAYS[way](warm)
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(args.repeat):
        for way in ways:
            began = time.monotonic()
            with Usage() as usage:
                result = WAYS[way](files)
            if result != expected:
                raise SystemExit(f"wrong result of {way}: {result}, not {expected}")
            found[way].append((usage.processor_s, time.monotonic() - began))
            print(f"{way}: {usage.processor_s:.2f} processor s", flush=True)
    print(f"\n{args.events:,} events, {args.keys:,} keys, the best of {args.repeat}")
    print(f"{'way':<18}{'CPU s/M':>9}{'events/s':>12}")
    for way, runs in found.items():
        processor, wall = (min(figures) for figures in zip(*runs, strict=True))
        print(f"{way:<18}{processor / args.events * 1e6:>9.2f}{args.events / wall:>12,.0f}")


if __name__ == "__main__":
    main()
