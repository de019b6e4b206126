"""Sinks of columnar files, and partitioned directories."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from files_kit import ROW, SCHEMA, PartitionedParquet, Play, read, records, visible_files
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Types
from penstock.connectors.files import parts as parts_module
from penstock.connectors.files.partitions import split_by_columns
from penstock.connectors.sink import Sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
)
from penstock.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat


class TestPartitionedParquetSink(PartitionedParquet):
    pass


class TestCsvSink(PartitionedParquet):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.csv(directory / "out", SCHEMA, header=True, gzip=True)

    def source(self, place: Path) -> FileSource:
        return FileSource.csv(place, schema=SCHEMA, header=True)


class TestJsonLinesSink(PartitionedParquet):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.json_lines(directory / "out", ROW, partition_by=["country"])

    def source(self, place: Path) -> FileSource:
        return FileSource.json_lines(place, schema=pa.schema([SCHEMA.field("n")]), partitions=["country"])


class TestOrcSink(PartitionedParquet):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.orc(directory / "out")

    def source(self, place: Path) -> FileSource:
        return FileSource.orc(place)


def test_files_partitions_are_readable_by_others(tmp_path: Path) -> None:
    kinds = pa.schema([("n", pa.int64()), ("s", pa.string()), ("day", pa.date32()), ("ok", pa.bool_())])
    play = Play(FileSink.parquet(tmp_path, kinds, partition_by=["s", "day", "ok"]))
    rows = [
        {"n": 1, "s": "a/b=c %", "day": dt.date(2020, 1, 2), "ok": True},
        {"n": 2, "s": None, "day": None, "ok": False},
        {"n": 3, "s": "a/b=c %", "day": dt.date(2020, 1, 2), "ok": True},
    ]
    play.epoch(1, Batch.of_rows(rows))
    hive = ds.partitioning(pa.schema(list(kinds)[1:]), flavor="hive")
    table = ds.dataset(tmp_path, partitioning=hive).to_table().select(kinds.names)
    assert sorted(table.to_pylist(), key=lambda row: row["n"]) == rows
    (folder,) = {path.parent for path in visible_files(tmp_path) if "2020" in str(path)}
    assert str(folder.relative_to(tmp_path)) == "s=a%2Fb%3Dc %25/day=2020-01-02/ok=true"


def test_files_values_survive_csv_and_json(tmp_path: Path) -> None:
    kinds = pa.schema(
        [("i", pa.int32()), ("s", pa.string()), ("f", pa.float64()), ("d", pa.decimal128(8, 3)),
         ("t", pa.timestamp("us")), ("day", pa.date32()), ("b", pa.bool_()), ("l", pa.list_(pa.int64()))]
    )  # fmt: skip
    when = dt.datetime.fromisoformat("2024-05-06T07:08:09.123456")
    rows = [
        Row(i=1, s='a "q", \\ b', f=0.1, d=Decimal("1.500"), t=when, day=when.date(), b=True, l=[1, 2]),
        Row(i=None, s="", f=None, d=None, t=None, day=None, b=None, l=None),
        Row(i=3, s=None, f=1e300, d=Decimal("-1.000"), t=when, day=when.date(), b=False, l=[]),
    ]
    Play(FileSink.csv(tmp_path / "csv", kinds)).epoch(1, Batch.of_rows(rows))
    Play(FileSink.json_lines(tmp_path / "json", kinds)).epoch(1, Batch.of_rows(rows))
    assert read(FileSource.csv(tmp_path / "csv", schema=kinds)) == rows
    assert read(FileSource.json_lines(tmp_path / "json", schema=kinds)) == rows


def test_files_columns_come_from_the_declared_type(tmp_path: Path) -> None:
    sink = FileSink.parquet(tmp_path / "a", partition_by=["country"]).typed(ROW)
    Play(sink).epoch(1, Batch.of_rows([Row(n=1, country="x")]))
    assert read(FileSource.parquet(tmp_path / "a", partitions=["country"])) == [Row(n=1, country="x")]
    untyped = Play(FileSink.parquet(tmp_path / "b"))
    with pytest.raises(ConnectorError, match="does not know the columns"):
        untyped.writer.write(Batch.of_rows([Row(n=1, country="x")]))
    with pytest.raises(ConfigError, match="cannot partition by other"):
        FileSink.parquet(tmp_path, SCHEMA, partition_by=["other"])
    partitioned = Play(FileSink.parquet(tmp_path / "c", partition_by=["other"]))
    with pytest.raises(ConnectorError, match="no column other to partition by"):
        partitioned.writer.write(records([1]))


def test_files_bucket_assigner_by_columns(tmp_path: Path) -> None:
    assigner = BucketAssigner.partition_bucket_assigner(["country"])
    assert [name for name, _ in assigner.assign(records([1, 2, 3]), 0)] == ["country=c1", "country=c0"]


@given(
    left=st.lists(st.one_of(st.none(), st.sampled_from("abc")), min_size=1, max_size=30),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=50, deadline=None)
def test_files_division_by_columns_is_that_of_python(left: list[str | None], seed: int) -> None:
    right = np.random.default_rng(seed).integers(0, 3, len(left)).tolist()
    batch = pa.record_batch({"l": pa.array(left, pa.string()), "r": right, "n": range(len(left))})
    expected: dict[Any, list[int]] = {}
    for row in batch.to_pylist():
        expected.setdefault((row["l"], row["r"]), []).append(row["n"])
    found = {values: part.column("n").to_pylist() for values, part in split_by_columns(batch, ["l", "r"])}
    assert found == expected


def test_files_formats_under_pyflinks_names(tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("n", number_type=Types.INT())
        .add_array_column("l", "#", Types.LONG())
        .add_string_column("s")
        .set_use_header()
        .set_null_value("null")
        .set_column_separator("|")
        .build()
    )
    rows = [Row(n=1, l=[1, 2], s="a|b"), Row(n=2, l=None, s=None)]
    writers = {
        "csv": CsvBulkWriters.for_schema(schema),
        "parquet": ParquetBulkWriters.for_row_type(schema.columns),
        "orc": OrcBulkWriters.for_row_type(schema.columns, {"orc.compress": "SNAPPY"}),
    }
    for name, factory in writers.items():
        Play(FileSink.for_bulk_format(tmp_path / name, factory).build()).epoch(1, Batch.of_rows(rows))
    reader = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), tmp_path / "csv")
    assert read(reader.build()) == rows and len(schema) == 3
    kind = Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])
    columns = ParquetColumnarRowInputFormat(row_type=kind, batch_size=10)
    parquet = FileSource.for_bulk_file_format(columns, tmp_path / "parquet").build()
    assert read(parquet) == [Row(s="a|b", n=1), Row(s=None, n=2)]
    assert read(FileSource.orc(tmp_path / "orc")) == rows


def test_files_csv_schema_that_skips_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("whatever\n1\n# no\n2\n")
    builder = CsvSchema.builder().add_number_column("n").set_skip_first_data_row().set_allow_comments()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(builder.build()), tmp_path)
    enumerator = FileEnumeratorProvider.default_non_splittable_file_enumerator()
    assert read(source.set_file_enumerator(enumerator).build()) == [Row(n=1), Row(n=2)]
    assert len(CsvSchema.builder().add_array_column("a", ";").add_array_column("b", ",").build()) == 2
    with pytest.raises(ConfigError, match="line feed"):
        CsvSchema.builder().set_line_separator("|")


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_files_many_partitions_do_not_fill_the_memory(
    tmp_path: Path, schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "_BUFFERED_BYTES", 100)
    play = Play(FileSink.parquet(tmp_path, schema, partition_by=["country"]))
    for _ in range(4):
        play.writer.write(records(list(range(20))))
    play.epoch(1, records([]))
    assert [pq.ParquetFile(path).num_row_groups for path in visible_files(tmp_path)] == [4, 4]
