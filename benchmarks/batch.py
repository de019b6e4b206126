"""``make bench-batch``: hourly counts per country of 50 million events in Parquet files, five ways.

    python benchmarks/batch.py [--events N] [--repeat R] [--json FILE]

* Spark SQL: the job as a Spark user writes it, by hand;
* BATCH: the Penstock program as Spark stages;
* BATCH, read by Spark: the same over a DataFrame, on one of the ten files;
* BATCH, row by row: the same with Python functions per record, on one of the ten files;
* STREAMING: the Penstock program as a stream over the same files.

Each way runs in a process of its own, in a session that has run something before; the time is from the call
to the result.  Figures are medians, ratios are to Spark SQL.  All ways must agree on the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOUR_MS = 3_600_000
FIRST_MS = 1_767_225_600_000
COUNTRIES = ("br", "de", "es", "fr", "gb", "in", "it", "jp", "mx", "ng", "pl", "us")
DAYS = 10
FILES = 10
Counts = dict[tuple[str, int], int]


def make_files(root: Path, events: int) -> Path:
    """The events, the same for the same number; made once."""
    place = root / f"events-{events}"
    if (place / "_SUCCESS").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    each = events // FILES
    for number in range(FILES):
        start = FIRST_MS + number * DAYS * 24 * HOUR_MS // FILES
        times = start + np.sort(rng.integers(0, DAYS * 24 * HOUR_MS // FILES, each))
        country = pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, len(COUNTRIES), each, dtype=np.int8)), pa.array(COUNTRIES)
        )
        table = pa.table(
            {
                "ts": times,
                "country": country.cast(pa.string()),
                "user": rng.integers(0, 1_000_000, each),
                "amount": rng.random(each),
            }
        )
        pq.write_table(table, place / f"part-{number}.parquet", row_group_size=1 << 20)
    (place / "_SUCCESS").touch()
    return place


# --- the ways ------------------------------------------------------------------------------------


def read(place: str) -> Any:
    """Parquet files as a DataFrame."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark.read.parquet(place)


def spark_sql(files: Path) -> Counts:
    """As a Spark user writes it."""
    from pyspark.sql import functions as f

    events = read(str(files))
    hour = (f.floor(f.col("ts") / HOUR_MS) * HOUR_MS).alias("hour")
    counted = events.groupBy("country", hour).agg(f.count("*").alias("clicks"))
    return {(row.country, row.hour): row.clicks for row in counted.collect()}


def penstock(files: Path, mode: str, row_by_row: bool = False, by_spark: bool = False) -> Counts:
    """One program, any mode."""
    from penstock.columns import Count
    from penstock.common import Configuration, Time, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.file_system import FileSource
    from penstock.datastream.window import TumblingEventTimeWindows

    config = Configuration.from_dict({"execution.runtime-mode": mode, "penstock.spark.master": "local[2]"})
    env = StreamExecutionEnvironment.get_execution_environment(config)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    parts = sorted(str(part) for part in files.glob("*.parquet"))
    if by_spark:
        events = env.from_dataframe(read(parts[0]).select("ts", "country"), by_time, time_column="ts")
    else:
        source = FileSource.parquet(*(parts[:1] if row_by_row else parts), columns=["ts", "country"])
        events = env.from_source(source, by_time, "events")
    if row_by_row:
        keyed = events.map(lambda event: (event["country"], 1)).key_by(lambda pair: pair[0])
        window = keyed.window(TumblingEventTimeWindows.of(Time.hours(1)))
        counted = window.reduce(lambda a, b: (a[0], a[1] + b[1]), _with_window())
        return {(country, start): count for country, start, count in counted.execute_and_collect()}
    window = events.key_by("country").window(TumblingEventTimeWindows.of(Time.hours(1)))
    counted = window.agg(Count("clicks"))
    rows = counted.execute_and_collect()
    return {(row["country"], row["window_start"]): row["clicks"] for row in rows}


def _with_window() -> Any:
    from penstock.datastream import ProcessWindowFunction

    class WithWindow(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Iterator[tuple[str, int, int]]:
            for country, count in elements:
                yield country, context.window().start, count

    return WithWindow()


WAYS: dict[str, Callable[[Path], Counts]] = {
    "Spark SQL": spark_sql,
    "BATCH": lambda files: penstock(files, "BATCH"),
    "BATCH, read by Spark": lambda files: penstock(files, "BATCH", by_spark=True),
    "BATCH, row by row": lambda files: penstock(files, "BATCH", row_by_row=True),
    "STREAMING": lambda files: penstock(files, "STREAMING"),
}


def one(way: str, files: Path, warm: Path, repeat: int) -> dict[str, Any]:
    """In a process of its own: warm up on little, then measure."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "2g").getOrCreate()
    WAYS[way](warm)
    seconds = []
    for _ in range(repeat):
        began = time.monotonic()
        counts = WAYS[way](files)
        seconds.append(time.monotonic() - began)
    return {"seconds": seconds, "counts": [[*key, count] for key, count in sorted(counts.items())]}


# --- the run -------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(".bench/batch"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    files, warm = make_files(args.data, args.events), make_files(args.data, 100_000)
    if args.one:
        print("RESULT " + json.dumps(one(args.one, files, warm, args.repeat)))
        return
    results = {way: measured(way, args) for way in WAYS}
    check(results)
    report(results, args)


def measured(way: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run a way in a process of its own."""
    more = ["--events", str(args.events), "--repeat", str(args.repeat), "--data", str(args.data)]
    done = subprocess.run(
        [sys.executable, __file__, "--one", way, *more], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise SystemExit(f"{way} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    print(f"{way}: {', '.join(f'{seconds:.2f} s' for seconds in result['seconds'])}", flush=True)
    return result


def check(results: dict[str, dict[str, Any]]) -> None:
    """All ways over all events have the same counts."""
    expected = results["Spark SQL"]["counts"]
    for way in ("BATCH", "STREAMING"):
        if results[way]["counts"] != expected:
            raise SystemExit(f"{way} counted something else than Spark SQL")


def report(results: dict[str, dict[str, Any]], args: argparse.Namespace) -> None:
    """Print the table."""
    figures = {}
    base = statistics.median(results["Spark SQL"]["seconds"]) / args.events
    print(f"\n{args.events:,} events, median of {args.repeat}")
    for way, result in results.items():
        events = args.events // FILES if way.startswith("BATCH, ") else args.events
        seconds = statistics.median(result["seconds"])
        figures[way] = {"events": events, "seconds": seconds, "ratio": seconds / events / base}
        print(
            f"{way:20} {seconds:8.2f} s {events / seconds / 1e6:8.2f} million events/s "
            f"{figures[way]['ratio']:6.2f} x the time of Spark SQL per event"
        )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
