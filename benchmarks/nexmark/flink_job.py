"""Queries on Flink SQL: a program for the environment in which ``apache-flink`` is installed.

    flink_job.py QUERY=EVENTS ... [--rows FOLDER]

For each it prints ``RESULT {...}`` (see ``reporting.py``): the job's net runtime into a sink that keeps
nothing, processor time and memory.  With ``--rows`` it writes the final rows as Parquet instead.  Settings
are those that Nexmark's own runs on Flink have (mini-batches, objects used again), with the faster state
backend, and checkpoints are as Penstock's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment, TableDescriptor

from benchmarks.nexmark.events import KINDS, ROUND, Feed
from benchmarks.nexmark.reporting import WARM, report
from benchmarks.nexmark.sql_tables import Formulas
from benchmarks.usage import Usage

TIME = "CAST(TO_TIMESTAMP_LTZ({}, 3) AS TIMESTAMP(3))"
COUNT_CHAR = "CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT)"
"""Flink's own functions in place of q14's, which would be slow in Python there."""
PARALLELISM = 2
SETTINGS = {
    "parallelism.default": str(PARALLELISM),
    "taskmanager.numberOfTaskSlots": str(PARALLELISM),
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.local-time-zone": "UTC",
    "restart-strategy.type": "none",
    "rest.port": "0",
    "rest.bind-port": "0",
}


def environment(work: Path) -> tuple[Any, Any]:
    config = Configuration()
    for key, value in SETTINGS.items():
        config.set_string(key, value)
    config.set_string("execution.checkpointing.dir", (work / "checkpoints").as_uri())
    config.set_string("python.executable", sys.executable)
    config.set_string("python.client.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    return env, StreamTableEnvironment.create(env)


def add_table(env: Any, tables: Any, kind: str, feed: Feed) -> None:
    """A table of numbers, and a view that makes events of them.

    A reader gets a contiguous part of the numbers; they are dealt in turn, so that all advance together.
    """
    assert feed.events is not None
    part, rest = divmod(KINDS[kind].count(feed.events), PARALLELISM)
    if rest:
        raise SystemExit(f"{feed.events} events cannot be dealt to {PARALLELISM} readers; take hundreds")
    formulas = Formulas(feed, "/", TIME)
    number = formulas.numbers(kind, f"({PARALLELISM} * MOD(f0, {part}) + f0 / {part})")
    source = NumberSequenceSource(0, part * PARALLELISM - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), kind, type_info=Types.LONG())
    schema = (
        Schema.new_builder()
        .column("f0", "BIGINT")
        .column_by_expression("n", number)
        .column_by_expression("dateTime", formulas.times(number))
        .watermark("dateTime", "`dateTime` - INTERVAL '4' SECOND")
        .build()
    )
    tables.create_temporary_view(f"numbered_{kind}", tables.from_data_stream(numbers, schema))
    columns = formulas.columns(kind) | {"dateTime": "`dateTime`"}
    chosen = ", ".join(f"{formula} AS `{name}`" for name, formula in columns.items())
    numbered = f"(SELECT n, n / {ROUND} AS r, `dateTime` FROM numbered_{kind})"
    tables.execute_sql(f"CREATE TEMPORARY VIEW {kind} AS SELECT {chosen} FROM {numbered}")


def add_side_input(tables: Any, work: Path) -> None:
    """A table that is read once and then asked by key.

    Of what comes with Flink only this source of its older interface can be looked up, which SQL does not
    name; Nexmark's own runs have it, too.
    """
    folder = work / "side_input"
    folder.mkdir()
    rows = pa.table({"key": range(10_000), "value": [f"value-{key}" for key in range(10_000)]})
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(rows, folder / "rows.csv", options)
    jvm = get_gateway().jvm
    kinds = jvm.org.apache.flink.table.api.DataTypes
    builder = jvm.org.apache.flink.table.sources.CsvTableSource.builder().path(str(folder / "rows.csv"))
    source = builder.field("key", kinds.BIGINT()).field("value", kinds.STRING()).build()
    catalog = jvm.org.apache.flink.table.catalog
    place = catalog.ObjectIdentifier.of("default_catalog", "default_database", "side_input")
    known = catalog.ConnectorCatalogTable.source(source, False)
    tables._j_tenv.getCatalogManager().createTemporaryTable(known, place, False)


def final_rows(result: Any, names: list[str]) -> pa.Table:
    """What the changes come to in the end."""
    rows: Counter[tuple[Any, ...]] = Counter()
    with result.collect() as changes:
        for row in changes:
            rows[tuple(row)] += 1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1
    left = [row for row, count in rows.items() for _ in range(count)]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in left])


def run(query: str, feed: Feed, folder: Path | None) -> dict[str, float]:
    """One query, in an environment of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        env, tables = environment(work)
        for kind in KINDS:
            add_table(env, tables, kind, feed)
        add_side_input(tables, work)
        text = (Path(__file__).parent / "sql" / f"{query}.sql").read_text()
        *views, last = text.replace("count_char(extra, 'c')", COUNT_CHAR).split(";\n")
        for view in views:
            tables.execute_sql(view)
        found = tables.sql_query(last)
        if folder is not None:
            names = list(found.get_schema().get_field_names())
            pyarrow.parquet.write_table(final_rows(found.execute(), names), folder / f"{query}.parquet")
            return {}
        with Usage() as used:
            result = found.execute_insert(TableDescriptor.for_connector("blackhole").build())
            result.wait()
        runtime = result.get_job_client().get_job_execution_result().result().get_net_runtime()
        return {"seconds": runtime / 1000, **used.figures()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="+")
    parser.add_argument("--per-second", type=int, default=10_000)
    parser.add_argument("--rows", type=Path)
    args = parser.parse_args()
    if args.rows is None:
        run("q0", Feed(WARM), None)  # a machine that has just started is not what is measured
    report(args.queries, lambda query, events: run(query, Feed(events, args.per_second), args.rows))


if __name__ == "__main__":
    main()
