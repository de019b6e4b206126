"""Writing files: names, buckets, rolling, commits, cleaning up."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common.serialization import Encoder
from penstock.connectors.files.buckets import strftime_pattern
from penstock.connectors.sink import CommitOutcome, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError, TimestampError
from penstock.core.ids import MIN_TIME, Epoch
from penstock.core.row import Row
from penstock.core.typeinfo import Types
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    JsonLinesEncoder,
    OutputFileConfig,
    ParquetWriterFactory,
    RollingPolicy,
)

HOUR = 3_600_000


def context(clock=None, **changes) -> WriterContext:
    start = WriterContext(
        "job", "sink", 0, 1, 1, None, (), True, clock or ManualClock(), lambda message: None
    )
    return replace(start, **changes)


def rows(*values):
    return Batch.of_rows(list(values))


def barrier(writer, epoch=1):
    writer.flush(False)
    return writer.prepare_commit(Epoch(epoch))


def commit_all(sink, writer):
    return sink.create_committer().commit(barrier(writer))


def tree(base: Path) -> dict[str, list[str]]:
    """Folder to lines, of finished files."""
    found: dict[str, list[str]] = {}
    for path in sorted(p for p in base.rglob("*") if p.is_file() and p.name[0] != "."):
        found.setdefault(str(path.parent.relative_to(base)), []).extend(path.read_text().splitlines())
    return found


def hidden(base: Path) -> list[str]:
    return sorted(p.name for p in base.rglob(".*") if p.is_file())


def text_sink(base):
    """All files in the base path itself."""
    builder = FileSink.for_row_format(str(base), Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def test_life_of_a_file(tmp_path):
    sink = (
        text_sink(tmp_path)
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("events").with_part_suffix(".txt").build()
        )
        .build()
    )
    writer = sink.create_writer(context(subtask=3))
    writer.write(rows("a", "b"))
    assert [name.endswith(".inprogress") for name in hidden(tmp_path)] == [True]
    (committable,) = barrier(writer)
    assert Path(committable.pending).read_text() == "a\nb\n" and tree(tmp_path) == {}
    assert sink.create_committer().commit([committable]) == [CommitOutcome.COMMITTED]
    (final,) = tmp_path.iterdir()
    assert final.name.startswith("events-1_") and final.name.endswith("-3-0.txt")
    assert sink.create_committer().commit([committable]) == [CommitOutcome.ALREADY_COMMITTED]
    final.unlink()
    sink.on_driver_message(1)
    with pytest.raises(ConnectorError, match="neither it nor its pending file"):
        sink.create_committer().commit([committable])


def test_commit_syncs_the_file_before_and_the_directory_after_the_rename(tmp_path, monkeypatch):
    sink = text_sink(tmp_path).build()
    writer = sink.create_writer(context())
    writer.write(rows("a"))
    (committable,) = barrier(writer)
    steps = []
    real_fsync = os.fsync

    def recording(handle: int) -> None:
        target = Path(os.readlink(f"/proc/self/fd/{handle}"))
        steps.append(("sync", target, Path(committable.final).exists()))
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", recording)
    sink.create_committer().commit([committable])
    assert steps == [("sync", Path(committable.pending), False), ("sync", tmp_path, True)]


def test_names_never_meet(tmp_path):
    sink = text_sink(tmp_path).build()
    for changes in ({}, {}, {"subtask": 1}, {"generation": 2}, {"job_name": "other"}):
        writer = sink.create_writer(context(**changes))
        writer.write(rows("x"))
        commit_all(sink, writer)
    assert len(list(tmp_path.iterdir())) == 5


def test_cleaning_up_leaves_what_is_not_ours(tmp_path):
    sink = text_sink(tmp_path).with_bucket_assigner(lambda value: "sub").build()
    writers = {
        name: sink.create_writer(context(**changes))
        for name, changes in {
            "old": {},
            "old sibling": {"subtask": 7},
            "other job": {"job_name": "other"},
            "other sink": {"sink_id": "another"},
            "current sibling": {"generation": 3, "subtask": 1},
        }.items()
    }
    for name, writer in writers.items():
        writer.write(rows(name))
        barrier(writer)
    (tmp_path / "sub" / ".somebody-else.inprogress").write_text("theirs")
    sink.create_writer(context(generation=3, subtask=2))
    assert len(hidden(tmp_path)) == 6, "only subtask 0 cleans up"
    sink.create_writer(context(generation=3))
    left = {path.read_text().strip() for path in (tmp_path / "sub").iterdir()}
    assert left == {"other job", "other sink", "current sibling", "theirs"}


def test_close_removes_open_and_unclaimed_files_and_keeps_prepared_ones(tmp_path):
    policy = RollingPolicy.default_rolling_policy(part_size=1)
    sink = text_sink(tmp_path).with_rolling_policy(policy).build()
    writer = sink.create_writer(context())
    writer.write(rows("kept"))
    (committable,) = barrier(writer)
    writer.write(rows("rolled, not in any snapshot"))
    writer.close()
    assert hidden(tmp_path) == [Path(committable.pending).name]


def test_rolling_by_size_age_and_inactivity(tmp_path):
    clock = ManualClock()
    policy = RollingPolicy.default_rolling_policy(100, 1000, 400)
    sink = text_sink(tmp_path).with_rolling_policy(policy).with_bucket_check_interval(100).build()
    writer = sink.create_writer(context(clock))
    assert writer.next_flush_ms() is None
    writer.write(rows("x" * 100))
    assert writer.next_flush_ms() is None, "rolled by size"
    writer.write(rows("a"))
    assert writer.next_flush_ms() == 100
    for _ in range(9):
        clock.advance(100)
        writer.on_time(clock.now_ms())
        writer.write(rows("b"))
    assert writer.next_flush_ms() == 1000
    clock.advance(100)
    writer.on_time(1000)
    assert writer.next_flush_ms() is None, "rolled by age"
    writer.write(rows("c"))
    clock.advance(400)
    writer.on_time(1400)
    assert writer.next_flush_ms() is None, "rolled by inactivity"
    assert len(barrier(writer)) == 3


def test_on_checkpoint_policy_rolls_only_at_barriers(tmp_path):
    clock = ManualClock()
    sink = text_sink(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    writer = sink.create_writer(context(clock))
    for _ in range(5):
        writer.write(rows("x" * 100))
        clock.advance(HOUR)
        writer.on_time(clock.now_ms())
    assert len(barrier(writer)) == 1


def test_buckets_by_processing_time(tmp_path):
    clock = ManualClock(1_700_000_000_000)
    assigner = BucketAssigner.date_time_bucket_assigner("'day='yyyy-MM-dd/HH", "Asia/Tokyo")
    sink = text_sink(tmp_path).with_bucket_assigner(assigner).build()
    writer = sink.create_writer(context(clock))
    writer.write(rows(1))
    clock.advance(HOUR)
    writer.write(rows(2))
    commit_all(sink, writer)
    assert tree(tmp_path) == {"day=2023-11-15/07": ["1"], "day=2023-11-15/08": ["2"]}


def test_buckets_by_event_time_divide_a_batch(tmp_path):
    assigner = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC", event_time=True)
    sink = text_sink(tmp_path).with_bucket_assigner(assigner).build()
    writer = sink.create_writer(context())
    writer.write(Batch.of_rows(["a", "b", "c"], times=[5, HOUR + 1, HOUR - 1]))
    commit_all(sink, writer)
    assert tree(tmp_path) == {"1970-01-01--00": ["a", "c"], "1970-01-01--01": ["b"]}
    for times in (None, [1, MIN_TIME]):
        with pytest.raises(TimestampError, match="assign_timestamps"):
            writer.write(Batch.of_rows(["x", "y"], times=times))


@pytest.mark.parametrize("bucket", ["../up", "/etc", "a/../b", 5])
def test_buckets_stay_below_the_base_path(tmp_path, bucket):
    writer = text_sink(tmp_path).with_bucket_assigner(lambda value: bucket).build().create_writer(context())
    with pytest.raises(ConnectorError, match="relative path below"):
        writer.write(rows(1))


def test_date_patterns():
    assert strftime_pattern("yyyy-MM-dd--HH") == "%Y-%m-%d--%H"
    assert strftime_pattern("'100%' yy''mm") == "100%% %y'%M"
    with pytest.raises(ConfigError, match="'QQ' is unknown"):
        strftime_pattern("yyyy-QQ")
    with pytest.raises(ConfigError, match="unclosed"):
        strftime_pattern("yyyy 'oops")
    with pytest.raises(ConfigError, match="time zone"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Olympus")


def test_check_creates_the_directory_and_reports_one_that_cannot_be(tmp_path):
    text_sink(tmp_path / "new" / "deep").build().check()
    assert (tmp_path / "new" / "deep").is_dir() and list((tmp_path / "new" / "deep").iterdir()) == []
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConnectorError, match="cannot write to"):
            text_sink(bad).build().check()


def test_settings_that_cannot_work():
    with pytest.raises(ConfigError, match="is not an encoder"):
        FileSink.for_row_format("/x", object())
    for prefix, suffix in ((".part", ""), ("a/b", ""), ("part", "/x")):
        with pytest.raises(ConfigError, match="part prefix"):
            OutputFileConfig(prefix, suffix)


def test_typed_text_is_rendered_as_flink_does(tmp_path):
    row_type = Types.ROW([Types.STRING(), Types.BOOLEAN()])
    sink = text_sink(tmp_path).build().typed(row_type)
    writer = sink.create_writer(context())
    writer.write(rows(Row("a", True)))
    commit_all(sink, writer)
    assert tree(tmp_path) == {".": ["+I[a, true]"]}


def test_encoder_with_a_stream(tmp_path):
    class Bracketed:
        def encode(self, value, stream):
            stream.write(f"<{value}>".encode())

    flat = BucketAssigner.base_path_bucket_assigner()
    sink = FileSink.for_row_format(tmp_path, Bracketed()).with_bucket_assigner(flat).build()
    writer = sink.create_writer(context())
    writer.write(rows(1, 2))
    commit_all(sink, writer)
    assert tree(tmp_path) == {".": ["<1><2>"]}


def test_json_lines():
    when = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    value = Row(s="ü", d=Decimal("1.50"), t=when, b=b"\x00\x01", n=np.int64(4), inner=Row(1, [Row(x=2)]))
    (line,) = JsonLinesEncoder().encode_batch([value]).decode().splitlines()
    assert json.loads(line) == {
        "s": "ü", "d": "1.50",
        "t": "2024-01-02T03:04:05+00:00", "b": "AAE=", "n": 4, "inner": [1, [{"x": 2}]],
    }  # fmt: skip
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        JsonLinesEncoder().encode_batch([object()])


SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def parquet_rows(base, sink, *batches):
    writer = sink.create_writer(context())
    for batch in batches:
        writer.write(batch)
    (committable,) = barrier(writer)
    sink.create_committer().commit([committable])
    return pq.ParquetFile(committable.final)


@pytest.mark.parametrize("schema", [SCHEMA, Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])])
def test_parquet_takes_columns_and_every_kind_of_row(tmp_path, schema):
    sink = FileSink.for_bulk_format(tmp_path, ParquetWriterFactory(schema)).build()
    file = parquet_rows(
        tmp_path,
        sink,
        Batch.of_columns(pa.record_batch({"id": [1], "name": ["a"]}, schema=SCHEMA)),
        Batch.of_columns(pa.record_batch({"name": ["b"], "more": [0], "id": pa.array([2], pa.int32())})),
        rows(Row(name="c", id=3)),
        rows(Row(4, "d"), Row(5, None)),
        rows((6, "f")),
        rows({"id": 7}),
    )
    assert file.read().to_pylist() == [
        {"id": i, "name": name} for i, name in enumerate(["a", "b", "c", "d", None, "f", None], 1)
    ]
    assert file.num_row_groups == 1, "small batches share a row group"


def test_parquet_row_groups_are_bounded(tmp_path):
    factory = ParquetWriterFactory(pa.schema([("n", pa.int64())]), row_group_rows=4)
    file = parquet_rows(tmp_path, FileSink.for_bulk_format(tmp_path, factory).build(), *[rows(1, 2, 3)] * 4)
    assert file.metadata.num_rows == 12
    assert max(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)) == 4


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (rows(("x", "a")), "column 'id'"),
        (rows((1, "a", 2)), "3 fields"),
        (rows(5), "cannot become a row of id, name"),
        (Batch.of_columns(pa.record_batch({"id": [1]})), "no column name"),
        (Batch.of_columns(pa.record_batch({"id": ["x"], "name": ["a"]})), "do not fit"),
    ],
)
def test_parquet_says_what_does_not_fit(tmp_path, batch, message):
    writer = FileSink.for_bulk_format(tmp_path, ParquetWriterFactory(SCHEMA)).build().create_writer(context())
    with pytest.raises(ConnectorError, match=message):
        writer.write(batch)
    writer.close()
    assert hidden(tmp_path) == []
