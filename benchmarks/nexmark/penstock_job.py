"""Queries on Penstock, on Spark with two slots: a program of its own, as ``flink_job.py`` is one.

    penstock_job.py QUERY=EVENTS ... [--sql] [--rows FOLDER [--disturb kill|rescale]]

For each it prints ``RESULT {...}`` (see ``reporting.py``): the job's net runtime into a sink that counts, how
many rows came there, processor time and memory.  With ``--rows`` it writes the final rows as Parquet instead,
and may be disturbed in the middle.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.nexmark.by_sql import sql_frame
from benchmarks.nexmark.events import Feed
from benchmarks.nexmark.exact import Run
from benchmarks.nexmark.queries import CHANGING, frame_of
from benchmarks.nexmark.reporting import WARM, report
from benchmarks.nexmark.tables import MakeSource, generated, stream
from benchmarks.usage import Usage
from penstock.common import Configuration
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.dataframe import DataFrame
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.job import Program, run_as

SETTINGS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1 s",
    "penstock.batch.max-rows": "65536",
}


class Tally(Sink):
    """Counts rows and keeps nothing."""

    def __init__(self) -> None:
        self.rows = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _TallyWriter(context)

    def on_driver_message(self, message: Any) -> None:
        self.rows += message


class _TallyWriter(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._rows = 0

    def write(self, batch: Batch) -> None:
        self._rows += len(batch)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._context.to_driver(self._rows)


def environment(checkpoints: Path | None, more: dict[str, str] | None = None) -> Env:
    """Two slots, a checkpoint every second."""
    config = Configuration()
    for key, value in {**SETTINGS, **(more or {})}.items():
        config.set_string(key, value)
    if checkpoints is not None:
        config.set_string("execution.checkpointing.dir", str(checkpoints))
    else:
        config.remove_config("execution.checkpointing.interval")
    return Env.get_execution_environment(config)


def frame(env: Env, query: str, feed: Feed, by_sql: bool, make_source: MakeSource = generated) -> DataFrame:
    """The query in an environment, as a DataFrame or by its text; a table is read once."""
    made: dict[str, DataFrame] = {}

    def table(kind: str) -> DataFrame:
        if kind not in made:
            made[kind] = stream(env, kind, feed, make_source=make_source)
        return made[kind]

    return sql_frame(env, query, table) if by_sql else frame_of(query)(table)


def measured(query: str, feed: Feed, by_sql: bool) -> dict[str, float]:
    """Seconds and rows of a job whose results are thrown away."""
    with tempfile.TemporaryDirectory() as checkpoints:
        env, sink = environment(Path(checkpoints)), Tally()
        found: Any = frame(env, query, feed, by_sql)
        # Changes as they are inside, which is what Flink's sink that keeps nothing gets, too.
        rows = found._stream() if query in CHANGING else found.to_data_stream()
        rows.sink_to(sink)
        with Usage() as used:
            seconds = env.execute(query).get_net_runtime() / 1000
    return {"seconds": seconds, "rows": sink.rows, **used.figures()}


def written(query: str, feed: Feed, by_sql: bool, folder: Path, disturb: str | None) -> dict[str, Any]:
    """Its final rows in a file of the folder, and what happened on the way."""
    with tempfile.TemporaryDirectory() as scratch:

        def made(env: Env, make_source: MakeSource) -> DataFrame:
            return frame(env, query, feed, by_sql, make_source)

        run = Run(query, Path(scratch), environment, made)
        how = {None: run.alone, "kill": run.killed, "rescale": run.rescaled}[disturb]
        found = how()
        run.rows(folder / f"{query}.parquet")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="+")
    parser.add_argument("--per-second", type=int, default=10_000)
    parser.add_argument("--sql", action="store_true")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--disturb", choices=("kill", "rescale"))
    args = parser.parse_args()

    def run(query: str, events: int) -> dict[str, Any]:
        feed = Feed(events, args.per_second)
        if args.rows is not None:
            return written(query, feed, args.sql, args.rows, args.disturb)
        return measured(query, feed, args.sql)

    with run_as(Program(overrides={"penstock.spark.master": "local[2]"})):
        measured("q0", Feed(WARM), args.sql)  # starts Spark and the Python workers
        report(args.queries, run)


if __name__ == "__main__":
    main()
