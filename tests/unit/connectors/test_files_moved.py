"""Sinks of files that go on elsewhere or otherwise than they began, and names of all kinds."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.files.discovery import find_files
from penstock.connectors.sink import CommitOutcome, Sink, SinkWriter, WriterContext
from penstock.connectors.source import EndOfSplit, Source
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    StreamFormat,
)
from penstock.storage.remote import RemoteStorage

NUMBERS = pa.schema([("n", pa.int64())])
WIDER = pa.schema([("n", pa.int64()), ("country", pa.string())])
THREE = FileCompactStrategy(checkpoints=3)


def writer_of(sink: Sink, job: str = "job", restored: int | None = None, state: Any = ()) -> SinkWriter:
    epoch = None if restored is None else Epoch(restored)
    generation = 1 if restored is None else 2
    return sink.create_writer(
        WriterContext(
            job, "sink", 0, 1, generation, epoch, tuple(state), True, ManualClock(0), lambda message: None
        )
    )


def barrier(sink: Sink, writer: SinkWriter, epoch: int, batch: Batch | None = None) -> list[Any]:
    """Write, take a checkpoint and commit it; the state of the writer."""
    if batch is not None:
        writer.write(batch)
    writer.flush(False)
    prepared = writer.prepare_commit(Epoch(epoch))
    state = writer.snapshot(Epoch(epoch))
    committer = sink.create_committer()
    assert committer is not None
    committer.commit(prepared)
    return state


def rows(source: Source) -> list[Any]:
    found: list[Any] = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        while True:
            try:
                batch = reader.poll(1000)
            except EndOfSplit:
                break
            found += [] if batch is None else batch.to_rows()
        reader.close()
    return found


def numbered(schema: pa.Schema, *numbers: int) -> Batch:
    values = [{"n": number, "country": "DE"} for number in numbers]
    return Batch.of_columns(pa.RecordBatch.from_pylist(values, schema=schema))


def compacting(place: Path, schema: pa.Schema = NUMBERS) -> FileSink:
    return FileSink.parquet(place, schema, compact=THREE)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("job", ["job", "fork"])
def test_a_fork_copies_parts_that_the_original_goes_on_with(tmp_path: Path, job: str, parts: int) -> None:
    original = compacting(tmp_path / "a")
    writer = writer_of(original)
    for epoch in range(1, parts + 1):
        savepoint = barrier(original, writer, epoch, numbered(NUMBERS, epoch))
    fork = compacting(tmp_path / "b")
    fork.check()
    forked = writer_of(fork, job, restored=parts, state=savepoint)
    forked.flush(True)
    barrier(fork, forked, parts + 1, numbered(NUMBERS, 90))
    before = [{"n": epoch} for epoch in range(1, parts + 1)]
    assert sorted((row.as_dict() for row in rows(FileSource.parquet(tmp_path / "b"))), key=str) == [
        *before,
        {"n": 90},
    ]
    writer.flush(True)
    barrier(original, writer, parts + 1, numbered(NUMBERS, 80))
    assert [row.n for row in rows(FileSource.parquet(tmp_path / "a"))] == [*range(1, parts + 1), 80]


def test_a_job_moves_to_another_store_with_what_it_holds_and_has_prepared(tmp_path: Path) -> None:
    old = compacting(tmp_path / "old")
    writer = writer_of(old)
    state = barrier(old, writer, 1, numbered(NUMBERS, 1))
    plain = FileSink.parquet(tmp_path / "plain", NUMBERS)
    other = writer_of(plain)
    other.write(numbered(NUMBERS, 7))
    prepared = other.prepare_commit(Epoch(1))
    base = "memory://files-moved/new"
    new = FileSink.parquet(base, NUMBERS, compact=THREE)
    committer = new.create_committer()
    committer.commit(prepared)
    assert [row.n for row in rows(FileSource.parquet(tmp_path / "plain"))] == [7]
    moved = writer_of(new, restored=1, state=state)
    moved.flush(True)
    barrier(new, moved, 2)
    assert [row.n for row in rows(FileSource.parquet(base))] == [1]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_parts_of_before_and_after_a_new_column_are_merged_with_it(
    tmp_path: Path, form: str, first: int
) -> None:
    schemas = [NUMBERS, WIDER][:: 1 if first == 0 else -1]
    sinks = [getattr(FileSink, form)(tmp_path, schema, compact=THREE) for schema in schemas]
    writer = writer_of(sinks[0])
    state = barrier(sinks[0], writer, 1, numbered(schemas[0], 1))
    after = writer_of(sinks[1], restored=1, state=state)
    after.flush(True)
    barrier(sinks[1], after, 2, numbered(schemas[1], 2))
    source = getattr(FileSource, form)(tmp_path)
    known = {row.n: row.as_dict().get("country") for row in rows(source)}
    assert known == ({1: None, 2: "DE"} if first == 0 else {1: "DE", 2: None})


def test_parts_with_different_columns_of_text_are_not_put_together(tmp_path: Path) -> None:
    old, new = (FileSink.csv(tmp_path, schema, header=True, compact=THREE) for schema in (NUMBERS, WIDER))
    state = barrier(old, writer_of(old), 1, numbered(NUMBERS, 1))
    writer = writer_of(new, restored=1, state=state)
    writer.write(numbered(WIDER, 2))
    writer.flush(True)
    with pytest.raises(ConnectorError, match="once without compaction"):
        writer.prepare_commit(Epoch(2))
    loose = FileSink.csv(tmp_path, WIDER, header=True)
    writer = writer_of(loose, restored=1, state=state)
    barrier(loose, writer, 2, numbered(WIDER, 2))
    assert sorted(len(path.read_text().split(",")) for path in tmp_path.glob("part*")) == [1, 3]


def test_a_bucket_may_have_any_name_in_a_store_without_rename() -> None:
    base = "memory://files-moved/odd"
    sink = FileSink.for_row_format(base, _Plain()).with_bucket_assigner(lambda value: f"a[{value}]*?").build()
    barrier(sink, writer_of(sink), 1, Batch.of_rows(["1", "2"]))
    assert sorted(path.split("/")[-2] for path in RemoteStorage(base).list_files(base)) == [
        "a[1]*?",
        "a[2]*?",
    ]


class _Plain:
    def encode_batch(self, values: list[Any]) -> bytes:
        return "".join(f"{value}\n" for value in values).encode()

    def compactor(self) -> FileCompactor:
        return FileCompactor.concat_file_compactor()


def test_partitions_whose_column_begins_with_an_underscore_are_read(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("_day", pa.string())])
    sink = FileSink.parquet(tmp_path, schema, partition_by=["_day"])
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["a", None])], schema=schema)
    barrier(sink, writer_of(sink), 1, Batch.of_columns(batch))
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "x=1").write_text("not ours")
    found = rows(FileSource.parquet(tmp_path, partitions=["_day"]))
    assert sorted((row.n, row.as_dict()["_day"]) for row in found) == [(1, "a"), (2, None)]


def test_two_stars_stand_for_whole_names(tmp_path: Path) -> None:
    for name in ("x.txt", "fax.txt", "a/x.txt", "a/b/x.txt", "a/b/fax.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [file.path.removeprefix(f"{tmp_path}/") for file in find_files(f"{tmp_path}/**/x.txt")]
    assert found == ["a/b/x.txt", "a/x.txt", "x.txt"]
    assert len(find_files(f"{tmp_path}/**")) == 5


def test_partition_columns_of_a_table_may_have_any_name(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    schema = pa.schema([("n", pa.int64()), ("größe %41", pa.string())])
    sink = DeltaSink(tmp_path / "t", schema, partition_by=["größe %41"])
    sink.check()
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["a/b %20", None])], schema=schema)
    barrier(sink, writer_of(sink), 1, Batch.of_columns(batch))
    found = rows(DeltaSource(tmp_path / "t"))
    assert sorted((row.n, row.as_dict()["größe %41"]) for row in found) == [(1, "a/b %20"), (2, None)]
    log = (tmp_path / "t" / "_delta_log" / "00000000000000000001.json").read_text()
    paths = [line.split('"path":"')[1].split('"')[0] for line in log.splitlines() if '"path":"' in line]
    assert paths and all(path.isascii() and not set(path) & set(" %") for path in paths)


def test_a_packed_file_that_is_cut_off_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(b"one\ntwo\n" * 1000)
    (tmp_path / "x.txt.gz").write_bytes(whole[:-9])
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).build()
    with pytest.raises(ConnectorError, match=r"x\.txt\.gz.*cut off"):
        rows(source)


def test_columns_that_all_come_from_directories(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("country", pa.string())])
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["DE", "DE"])], schema=schema)
    for form in ("parquet", "orc"):
        sink = getattr(FileSink, form)(tmp_path / form, schema, partition_by=["country"])
        barrier(sink, writer_of(sink), 1, Batch.of_columns(batch))
        source = getattr(FileSource, form)(tmp_path / form, columns=["country"], partitions=["country"])
        assert [row.as_dict() for row in rows(source)] == [{"country": "DE"}] * 2


@pytest.mark.parametrize("schema", [NUMBERS, None])
def test_lines_of_white_space_are_no_json(tmp_path: Path, schema: pa.Schema | None) -> None:
    (tmp_path / "x.json").write_bytes(b'{"n":1}\n   \n\r\n  {"n":2}\n \t \n')
    found = rows(FileSource.json_lines(tmp_path, schema=schema))
    assert [row["n"] for row in found] == [1, 2]


def test_a_file_that_was_taken_away_does_not_keep_the_job_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = FileSink.json_lines(tmp_path, WIDER, partition_by=["country"])
    context = WriterContext("job", "sink", 0, 1, 4, None, (), True, ManualClock(0), sink.on_driver_message)
    writer = sink.create_writer(context)
    writer.write(numbered(WIDER, 1))
    prepared = writer.prepare_commit(Epoch(1))
    committer = sink.create_committer()
    committer.commit(prepared)
    shutil.rmtree(tmp_path / "country=DE")
    assert committer.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED], "another attempt, the same driver"
    assert caplog.text == ""
    again = FileSink.json_lines(tmp_path, NUMBERS).create_committer()
    assert again.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED], "another driver"
    assert "somebody has taken the file away" in caplog.text


def test_a_driver_on_another_disk_is_told_at_the_first_commit(tmp_path: Path) -> None:
    sink = FileSink.json_lines(tmp_path, NUMBERS)
    context = WriterContext("job", "sink", 0, 1, 1, None, (), True, ManualClock(0), sink.on_driver_message)
    writer = sink.create_writer(context)
    writer.write(numbered(NUMBERS, 1))
    prepared = writer.prepare_commit(Epoch(1))
    Path(prepared[0].pending).rename(tmp_path / "elsewhere")
    with pytest.raises(ConnectorError, match="must be on shared storage"):
        sink.create_committer().commit(prepared)
