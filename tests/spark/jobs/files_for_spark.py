"""A job writes files and a Delta table; the same Spark session then reads the files with its own readers.

Hidden files of an unfinished attempt lie beside them, and where there is a manifest also whole files that
it does not list.  Prints how much Spark sees and whether it is right.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.core.row import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import FileCompactStrategy, FileSink
from penstock.spark.session import start_session

COUNT = 2000
ROW = Types.ROW_NAMED(["n", "country"], [Types.LONG(), Types.STRING()])


def main(master: str, work: Path) -> None:
    """Write, then read."""
    spark = start_session(Configuration.from_dict({"penstock.spark.master": master}))
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "300 ms")
    config.set_string("execution.checkpointing.dir", str(work / "chk"))
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    source = DataGeneratorSource(lambda i: Row(n=i, country=f"c/{i % 3}"), COUNT, 2000)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", type_info=ROW)
    compact = FileCompactStrategy(checkpoints=2)
    parquet = FileSink.parquet(work / "parquet", partition_by=["country"], compact=compact, manifest=True)
    rows.sink_to(parquet).uid("parquet")
    rows.sink_to(FileSink.csv(work / "csv", header=True, gzip=True)).uid("csv")
    rows.sink_to(FileSink.json_lines(work / "json", manifest=True)).uid("json")
    rows.sink_to(FileSink.orc(work / "orc")).uid("orc")
    rows.sink_to(DeltaSink(work / "delta", partition_by=["country"])).uid("delta")
    env.execute("files for spark")
    for kind in ("parquet", "csv", "json", "orc"):
        (work / kind / ".part-9.000000000000-9.inprogress").write_bytes(b"not finished")
    for kind in ("parquet", "json"):
        add_unlisted(work / kind)
    frames = {
        "parquet": spark.read.parquet(str(work / "parquet")),
        "csv": spark.read.csv(str(work / "csv"), header=True, inferSchema=True),
        "json": spark.read.json(str(work / "json")),
        "orc": spark.read.orc(str(work / "orc")),
    }
    for kind, frame in frames.items():
        tell(kind, [[row["n"], row["country"]] for row in frame.select("n", "country").collect()])
    tell("delta", delta_rows(work / "delta"))


def add_unlisted(place: Path) -> None:
    """A copy of each file under a name that nothing but the manifest tells from the others."""
    for file in [file for file in place.rglob("*part-*") if file.is_file()]:
        shutil.copy(file, file.with_name(f"part-unlisted-{file.name}"))


def tell(kind: str, rows: list[list[Any]]) -> None:
    """How many records there are, and whether they are the right ones."""
    expected = [[n, f"c/{n % 3}"] for n in range(COUNT)]
    print(json.dumps({kind: [len(rows), sorted(rows) == expected]}), flush=True)


def delta_rows(place: Path) -> list[list[Any]]:
    """By deltalake: there is no Delta for this Spark yet."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(place)))
    table = pa.table(query.execute("select n, country from t"))
    return [[row["n"], row["country"]] for row in table.to_pylist()]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
