"""Jobs that write files and tables, crash at awkward places, and leave each record once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_jobs import NO_TIME, environment, until

from penstock.common import Encoder, Types
from penstock.connectors.files.manifest import Manifest, place_of
from penstock.connectors.sink import Sink
from penstock.connectors.source import EndOfSplit
from penstock.core.clock import ManualClock
from penstock.core.row import Row
from penstock.datastream import OutputTag
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import (
    CsvDialect,
    CsvFormat,
    FileCompactStrategy,
    FileSink,
    FileSource,
    ParquetFormat,
)
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, cued_source

ROW = Types.ROW_NAMED(["n", "country"], [Types.LONG(), Types.STRING()])


def delta_table(place: Path) -> tuple[Sink, Callable[[], list[int]]]:
    return DeltaSink(place, ROW, partition_by=["country"]), lambda: delta_numbers(place)


def delta_numbers(place: Any, options: dict[str, str] | None = None) -> list[int]:
    deltalake = pytest.importorskip("deltalake")
    table = deltalake.DeltaTable(str(place), storage_options=options)
    query = deltalake.QueryBuilder().register("t", table)
    return [row["n"] for row in pa.table(query.execute("select n from t")).to_pylist()]


def partitioned_parquet(place: Path) -> tuple[Sink, Callable[[], list[int]]]:
    return FileSink.parquet(place, partition_by=["country"]), lambda: numbers(FileSource.parquet(place))


def compacted_parquet(place: Path) -> tuple[Sink, Callable[[], list[int]]]:
    strategy = FileCompactStrategy(checkpoints=2)
    sink = FileSink.parquet(place, ROW, partition_by=["country"], compact=strategy)
    return sink, lambda: numbers(FileSource.parquet(place))


def listed_parquet(place: Path | str) -> tuple[Sink, Callable[[], list[int]]]:
    """As above, seen by those who follow the manifest."""
    strategy = FileCompactStrategy(checkpoints=2)
    sink = FileSink.parquet(place, ROW, partition_by=["country"], compact=strategy, manifest=str(place))
    files = Manifest(place_of(str(place), str(place)))
    return sink, lambda: [n for file in files.listed() for n in numbers(FileSource.parquet(unquote(file)))]


def packed_csv(place: Path) -> tuple[Sink, Callable[[], list[int]]]:
    schema = pa.schema([("n", pa.int64()), ("country", pa.string())])
    source = FileSource.csv(place, schema=schema, header=True)
    return FileSink.csv(place, header=True, gzip=True), lambda: numbers(source)


def numbers(source: FileSource) -> list[int]:
    """What a reader sees."""
    found = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        with contextlib.suppress(EndOfSplit):
            while True:
                batch = reader.poll(1000)
                found += [] if batch is None else [row["n"] for row in batch.to_rows()]
    return found


def iceberg_table(place: Path) -> tuple[Sink, Callable[[], list[int]]]:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    pytest.importorskip("sqlalchemy")
    place.mkdir()
    properties = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/wh"}
    sink = IcebergSink("db.t", ROW, properties=properties, partition_by=["country"])

    def read() -> list[int]:
        table = catalogs.load_catalog("default", **properties).load_table("db.t")
        return [row["n"] for row in table.scan().to_arrow().to_pylist()]

    return sink, read


SINKS = [delta_table, iceberg_table, partitioned_parquet, compacted_parquet, packed_csv]


def script(start: int) -> list[Any]:
    """Crashes before any checkpoint, right behind one, and twice in a row."""
    rows = [Row(n=n, country=f"c{n % 3}") for n in range(start, start + 60)]
    return [
        *rows[:10], Crash(), *rows[10:20], AwaitCheckpoint(), *rows[20:30], Crash(times=2), *rows[30:40],
        AwaitCheckpoint(), Crash(), *rows[40:],
    ]  # fmt: skip


@pytest.mark.parametrize("make", SINKS)
def test_table_jobs_crashes_leave_each_record_once(
    make: Callable[[Path], tuple[Sink, Callable[[], list[int]]]], quick_disk: Path
) -> None:
    sink, read = make(quick_disk / "out")
    env = environment(
        quick_disk / "chk",
        **{"execution.checkpointing.interval": "40 ms", "restart-strategy.fixed-delay.attempts": "20"},
    )
    source = cued_source(script(0), script(1000), directory=quick_disk / "cue")
    stream = env.from_source(source, NO_TIME, "in", type_info=ROW)
    stream.sink_to(sink).uid("out")
    with local_cluster(slots=2):
        env.execute("tables")
    assert sorted(read()) == [*range(60), *range(1000, 1060)]
    assert not [path for path in (quick_disk / "out").rglob(".*.inprogress")]


@pytest.mark.parametrize("make", [listed_parquet, delta_table])
def test_table_jobs_on_s3(make: Callable[..., Any], s3: str, quick_disk: Path) -> None:
    place = f"{s3}/{make.__name__}"
    sink, read = make(place)
    if isinstance(sink, DeltaSink):
        options = {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "AWS_ALLOW_HTTP": "true"}
        sink = DeltaSink(place, ROW, partition_by=["country"], storage_options=options)
        read = lambda: delta_numbers(place, options)  # noqa: E731
    env = environment(quick_disk / "chk", **{"execution.checkpointing.interval": "100 ms"})
    rows = [Row(n=n, country=f"c{n % 2}") for n in range(20)]
    cues = [*rows[:7], AwaitCheckpoint(), *rows[7:13], Crash(), *rows[13:]]
    source = cued_source(cues, directory=quick_disk / "cue")
    env.from_source(source, NO_TIME, "in", type_info=ROW).sink_to(sink).uid("out")
    with local_cluster(slots=2):
        env.execute("tables on s3")
    assert sorted(read()) == list(range(20))


def test_table_jobs_batch_run_is_one_entry_of_the_manifest(quick_disk: Path) -> None:
    sink, read = listed_parquet(quick_disk / "out")
    for _ in range(2):
        env = environment(**{"execution.runtime-mode": "BATCH"})
        rows = env.from_collection([(n, f"c{n % 3}") for n in range(20)], type_info=ROW)
        rows.sink_to(sink).uid("out")
        with local_cluster(slots=2):
            env.execute("batch")
    assert sorted(read()) == sorted([*range(20)] * 2)
    entries = (quick_disk / "out" / "_spark_metadata").iterdir()
    assert sorted(entry.name for entry in entries) == [".penstock", "0", "1", "2"]


def test_table_jobs_watched_directory_with_bad_lines(quick_disk: Path) -> None:
    """New files are found while the job runs, what cannot be read goes aside, and a crash repeats nothing."""
    inbox = quick_disk / "in"
    inbox.mkdir()
    (inbox / "a.csv").write_text("".join(f"{n},x\n" for n in range(50)) + "what,is,this\n")
    schema = pa.schema([("n", pa.int64()), ("country", pa.string())])
    bad = OutputTag("bad")
    source = (
        FileSource.for_record_stream_format(CsvFormat(schema), inbox / "*.csv")
        .on_error("divert", bad)
        .monitor_continuously(20)
        .build()
    )
    env = environment(quick_disk / "chk", **{"execution.checkpointing.interval": "30 ms"})
    stream = env.from_source(source, NO_TIME, "in")
    stream.sink_to(FileSink.json_lines(quick_disk / "good")).uid("good")
    lost = stream.get_side_output(bad).map(lambda record: f"{record.split}@{record.position}", Types.STRING())
    lost.sink_to(FileSink.for_row_format(quick_disk / "bad", Encoder.simple_string_encoder()).build()).uid(
        "bad"
    )
    good = FileSource.json_lines(quick_disk / "good", schema=schema)
    with local_cluster(slots=2) as launcher:
        client = env.execute_async("watch")
        until(lambda: len(numbers(good)) == 50, "the first file is read")
        launcher.clusters[-1].kill(0)
        (inbox / ".b.csv").write_text("".join(f"{n},x\n" for n in range(50, 80)))
        (inbox / ".b.csv").rename(inbox / "b.csv")
        until(lambda: len(numbers(good)) >= 80, "the second file is read")
        client.cancel().result()
    assert sorted(numbers(good)) == list(range(80))
    diverted = [
        line for path in (quick_disk / "bad").rglob("part-*") for line in path.read_text().splitlines()
    ]
    assert diverted == [f"{inbox}/a.csv@{(inbox / 'a.csv').read_text().index('what')}"]


def test_table_jobs_read_parts_of_files_on_s3(s3: str, tmp_path: Path) -> None:
    import s3fs

    (tmp_path / "a.csv").write_text("n,country\n" + "".join(f"{n},x\n" for n in range(200)))
    pq.write_table(pa.table({"n": range(200)}), tmp_path / "a.parquet", row_group_size=50)
    s3fs.S3FileSystem().put(str(tmp_path), f"{s3}/in", recursive=True)
    schema = pa.schema([("n", pa.int64())])
    lines = CsvFormat(schema, CsvDialect(header=True))
    for source in (
        FileSource.for_record_stream_format(lines, f"{s3}/in/*.csv"),
        FileSource.for_bulk_file_format(ParquetFormat(), f"{s3}/in/a.parquet"),
    ):
        parts = source.with_split_size(300).build()
        assert len(list(parts.create_enumerator(1).discover())) > 2
        assert numbers(parts) == list(range(200))
