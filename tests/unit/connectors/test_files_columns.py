"""Sinks of columnar files, partitioned directories and compaction."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Encoder, Types
from penstock.connectors.files import parts as parts_module
from penstock.connectors.files.partitions import split_by_columns
from penstock.connectors.sink import Sink, WriterContext
from penstock.connectors.source import EndOfSplit
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.core.row import Row
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    RollingPolicy,
)
from penstock.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.testing.conformance import SinkConformance

SCHEMA = pa.schema([("n", pa.int64()), ("country", pa.string())])
ROW = Types.ROW_NAMED(["n", "country"], [Types.LONG(), Types.STRING()])


def records(values: list[int]) -> Batch:
    countries = pa.array([f"c{value % 2}" for value in values], pa.string())
    return Batch.of_columns(pa.record_batch([pa.array(values, pa.int64()), countries], schema=SCHEMA))


def visible_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob(".*") if path.is_file()]


def read(source: FileSource) -> list[Any]:
    rows = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        while True:
            try:
                batch = reader.poll(1000)
            except EndOfSplit:
                break
            rows += [] if batch is None else batch.to_rows()
    return rows


class TestPartitionedParquetSink(SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.parquet(directory / "out", SCHEMA, partition_by=["country"])

    def source(self, place: Path) -> FileSource:
        return FileSource.parquet(place, partitions=["country"])

    def batch(self, values: list[int]) -> Batch:
        return records(values)

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        rows = read(self.source(directory / "out"))
        assert all(row["country"] == f"c{row['n'] % 2}" for row in rows)
        return [row["n"] for row in rows]

    def leftovers(self, directory: Path) -> list[Any]:
        return hidden_files(directory)


class TestCsvSink(TestPartitionedParquetSink):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.csv(directory / "out", SCHEMA, header=True, gzip=True)

    def source(self, place: Path) -> FileSource:
        return FileSource.csv(place, schema=SCHEMA, header=True)


class TestJsonLinesSink(TestPartitionedParquetSink):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.json_lines(directory / "out", ROW, partition_by=["country"])

    def source(self, place: Path) -> FileSource:
        return FileSource.json_lines(place, schema=pa.schema([SCHEMA.field("n")]), partitions=["country"])


class TestOrcSink(TestPartitionedParquetSink):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.orc(directory / "out")

    def source(self, place: Path) -> FileSource:
        return FileSource.orc(place)


class _Play(SinkConformance):
    """The suite's engine, for tests of our own."""

    def __init__(self, sink: Sink) -> None:
        sink.check()
        self.sink = sink
        self.attempt = 1
        self.writer = self._writer(sink)
        self.committed = 0
        self.states: dict[int, tuple[list[Any], list[Any]]] = {}

    def epoch(self, number: int, batch: Batch, commit: bool = True) -> list[Any]:
        self.writer.write(batch)
        self.writer.flush(False)
        prepared = self.writer.prepare_commit(Epoch(number))
        self.states[number] = (prepared, self.writer.snapshot(Epoch(number)))
        if commit:
            self._commit(self.sink, prepared)
        return prepared

    def restart(self, restored: int) -> None:
        """As the engine does: the restored snapshot's committables, then writers."""
        self.writer.close()
        prepared, state = self.states[restored]
        self._commit(self.sink, prepared)
        self.attempt += 1
        context = WriterContext(
            job_name="conformance",
            sink_id="sink",
            subtask=0,
            parallelism=3,
            generation=self.attempt,
            restored_epoch=Epoch(restored),
            restored_state=tuple(state),
            checkpointing=True,
            clock=ManualClock(0),
            to_driver=self.sink.on_driver_message,
        )
        self.writer = self.sink.create_writer(context)


def compacting(place: Path, checkpoints: int | None = 3, size: int | None = None) -> FileSink:
    return FileSink.parquet(place, SCHEMA, compact=FileCompactStrategy(checkpoints, size))


def numbers(place: Path) -> list[int]:
    return sorted(row["n"] for row in read(FileSource.parquet(place)))


class TestCompactingSinkThatMergesAtOnce(TestPartitionedParquetSink):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.parquet(
            directory / "out",
            SCHEMA,
            partition_by=["country"],
            rolling=RollingPolicy.default_rolling_policy(part_size=1),
            compact=FileCompactStrategy(checkpoints=1),
        )


def test_files_compaction_gives_one_file_for_several_checkpoints(tmp_path: Path) -> None:
    play = _Play(compacting(tmp_path))
    for epoch in (1, 2):
        play.epoch(epoch, records([epoch]))
        assert visible_files(tmp_path) == [] and len(hidden_files(tmp_path)) == epoch
    play.epoch(3, records([3]))
    (only,) = visible_files(tmp_path)
    assert only.name.startswith("compacted-part-") and only.name.endswith(".parquet")
    assert hidden_files(tmp_path) == [] and numbers(tmp_path) == [1, 2, 3]
    assert pq.ParquetFile(only).num_row_groups == 1


def test_files_compaction_by_size_leaves_large_files_alone(tmp_path: Path) -> None:
    play = _Play(FileSink.json_lines(tmp_path, SCHEMA, compact=FileCompactStrategy(size_threshold=60)))
    play.epoch(1, records([1]))
    assert visible_files(tmp_path) == []
    play.epoch(2, records([2, 3]))
    assert [path.name.startswith("compacted-") for path in visible_files(tmp_path)] == [True]
    play.epoch(3, records([4, 5, 6]))
    assert [path.name.startswith("compacted-") for path in visible_files(tmp_path)] == [True, False]


def test_files_compaction_is_exact_at_every_crash(tmp_path: Path) -> None:
    """Restored at any checkpoint, with or without its commit done, each record is visible once at the end."""
    for restored in range(1, 6):
        for committed in (False, True):
            place = tmp_path / f"{restored}-{committed}"
            play = _Play(compacting(place, 2))
            for epoch in range(1, restored + 1):
                play.epoch(epoch, records([epoch]), commit=epoch < restored or committed)
            play.writer.write(records([90]))
            play.writer.flush(False)
            play.writer.prepare_commit(Epoch(restored + 1))
            play.writer.write(records([91]))
            play.restart(restored)
            play._commit(play.sink, play.states[restored][0])
            play.epoch(restored + 2, records([100]))
            play.writer.flush(True)
            play.epoch(restored + 3, records([101]))
            assert numbers(place) == [*range(1, restored + 1), 100, 101]
            assert hidden_files(place) == []


def test_files_compaction_of_an_older_snapshot_finds_merged_parts_visible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play = _Play(compacting(tmp_path, 2))
    play.epoch(1, records([1]))
    play.epoch(2, records([]))
    play.restart(1)
    assert "they were merged after it was taken" in caplog.text
    play.writer.flush(True)
    play.epoch(4, records([3]))
    assert numbers(tmp_path) == [1, 3]


def test_files_compaction_at_another_parallelism(tmp_path: Path) -> None:
    """Who cleans up does not hold the files himself, and leaves those that another subtask was dealt."""
    play = _Play(compacting(tmp_path, 5))
    play.epoch(1, records([1]))
    play.epoch(2, records([2]))
    state = play.states[2][1]
    play.states[2] = ([], [])
    play.restart(2)
    assert len(hidden_files(tmp_path)) == 2
    play.states[2] = ([], state)
    play.restart(2)
    play.writer.flush(True)
    play.epoch(4, records([3]))
    assert numbers(tmp_path) == [1, 2, 3] and hidden_files(tmp_path) == []


def test_files_compaction_switched_off_lets_held_files_out(tmp_path: Path) -> None:
    play = _Play(compacting(tmp_path, 10))
    play.epoch(1, records([1]))
    play.epoch(2, records([2]))
    play.sink = FileSink.parquet(tmp_path, SCHEMA)
    play.restart(2)
    play.epoch(4, records([3]))
    assert numbers(tmp_path) == [1, 2, 3] and hidden_files(tmp_path) == []


@pytest.mark.parametrize("form", ["csv", "json_lines", "orc", "text"])
def test_files_compaction_of_each_format(tmp_path: Path, form: str) -> None:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    sinks = {
        "csv": lambda: FileSink.csv(tmp_path, SCHEMA, header=True, compact=strategy),
        "json_lines": lambda: FileSink.json_lines(tmp_path, SCHEMA, gzip=True, compact=strategy),
        "orc": lambda: FileSink.orc(tmp_path, compact=strategy),
        "text": lambda: (
            FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
            .enable_compact(strategy, FileCompactor.concat_file_compactor("--\n"))
            .build()
        ),
    }
    sources = {
        "csv": lambda: FileSource.csv(tmp_path, schema=SCHEMA, header=True),
        "json_lines": lambda: FileSource.json_lines(tmp_path, schema=SCHEMA),
        "orc": lambda: FileSource.orc(tmp_path),
        "text": lambda: FileSource.text(tmp_path),
    }
    play = _Play(sinks[form]())
    play.epoch(1, records([1]))
    play.epoch(2, records([2]))
    assert len(visible_files(tmp_path)) == 1
    found = read(sources[form]())
    assert len(found) == 3 if form == "text" else [row["n"] for row in found] == [1, 2]


def test_files_identical_compactor_only_delays(tmp_path: Path) -> None:
    strategy = FileCompactStrategy(checkpoints=2)
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    play = _Play(sink.enable_compact(strategy, FileCompactor.identical_file_compactor()).build())
    play.epoch(1, records([1]))
    assert visible_files(tmp_path) == []
    play.epoch(2, records([2]))
    assert len(visible_files(tmp_path)) == 2


def test_files_compaction_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a number of checkpoints or a size"):
        FileCompactStrategy.builder().build()
    with pytest.raises(ConfigError, match="at least one checkpoint"):
        FileCompactStrategy.builder().enable_compaction_on_checkpoint(0).build()

    class Odd:
        def create(self, stream: Any) -> Any: ...

    with pytest.raises(ConfigError, match="does not say how its files are merged"):
        FileSink.for_bulk_format(tmp_path, Odd()).enable_compact(FileCompactStrategy(1))


def test_files_partitions_are_readable_by_others(tmp_path: Path) -> None:
    kinds = pa.schema([("n", pa.int64()), ("s", pa.string()), ("day", pa.date32()), ("ok", pa.bool_())])
    play = _Play(FileSink.parquet(tmp_path, kinds, partition_by=["s", "day", "ok"]))
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
    _Play(FileSink.csv(tmp_path / "csv", kinds)).epoch(1, Batch.of_rows(rows))
    _Play(FileSink.json_lines(tmp_path / "json", kinds)).epoch(1, Batch.of_rows(rows))
    assert read(FileSource.csv(tmp_path / "csv", schema=kinds)) == rows
    assert read(FileSource.json_lines(tmp_path / "json", schema=kinds)) == rows


def test_files_columns_come_from_the_declared_type(tmp_path: Path) -> None:
    sink = FileSink.parquet(tmp_path / "a", partition_by=["country"]).typed(ROW)
    _Play(sink).epoch(1, Batch.of_rows([Row(n=1, country="x")]))
    assert read(FileSource.parquet(tmp_path / "a", partitions=["country"])) == [Row(n=1, country="x")]
    untyped = _Play(FileSink.parquet(tmp_path / "b"))
    with pytest.raises(ConnectorError, match="does not know the columns"):
        untyped.writer.write(Batch.of_rows([Row(n=1, country="x")]))
    with pytest.raises(ConfigError, match="cannot partition by other"):
        FileSink.parquet(tmp_path, SCHEMA, partition_by=["other"])
    partitioned = _Play(FileSink.parquet(tmp_path / "c", partition_by=["other"]))
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
        _Play(FileSink.for_bulk_format(tmp_path / name, factory).build()).epoch(1, Batch.of_rows(rows))
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
    with pytest.raises(ConfigError, match="share one separator"):
        CsvSchema.builder().add_array_column("a", ";").add_array_column("b", ",").build()
    with pytest.raises(ConfigError, match="line feed"):
        CsvSchema.builder().set_line_separator("|")


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_files_many_partitions_do_not_fill_the_memory(
    tmp_path: Path, schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "_BUFFERED_BYTES", 100)
    play = _Play(FileSink.parquet(tmp_path, schema, partition_by=["country"]))
    for _ in range(4):
        play.writer.write(records(list(range(20))))
    play.epoch(1, records([]))
    assert [pq.ParquetFile(path).num_row_groups for path in visible_files(tmp_path)] == [4, 4]
