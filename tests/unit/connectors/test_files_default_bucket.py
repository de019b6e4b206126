"""Where a file sink writes that nobody gave a bucket assigner, and jobs from before that was so."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from files_kit import hidden_files, read, visible_files

from penstock.common.serialization import Encoder
from penstock.connectors.files.writer import FileCommittable
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import Epoch
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactStrategy,
    FileSink,
    FileSource,
)

NOW = 1_700_000_000_000
FLAT = BucketAssigner.base_path_bucket_assigner()


def builder(base: Path) -> Any:
    return FileSink.for_row_format(base, Encoder.simple_string_encoder())


def context(subtask: int = 0, generation: int = 1, restored: int | None = None, **more: Any) -> WriterContext:
    epoch = None if restored is None else Epoch(restored)
    start = WriterContext("j", "s", subtask, 2, generation, epoch, (), True, ManualClock(NOW), lambda _: None)
    return replace(start, **more)


def prepared(writer: SinkWriter, epoch: int, value: str) -> list[Any]:
    writer.write(Batch.of_rows([value]))
    writer.flush(False)
    return writer.prepare_commit(Epoch(epoch))


def write(sink: FileSink, at: WriterContext, epoch: int, value: str) -> SinkWriter:
    """One epoch of one writer, committed."""
    writer = sink.create_writer(at)
    sink.create_committer().commit(prepared(writer, epoch, value))
    return writer


def folders(base: Path) -> set[str]:
    return {str(path.parent.relative_to(base)) for path in visible_files(base)}


def old_job(base: Path) -> None:
    """One epoch of a job from before there were hours."""
    write(builder(base).with_bucket_assigner(FLAT).build(), context(), 1, "old")


def test_the_default_is_a_folder_per_hour_as_in_flink(tmp_path: Path) -> None:
    """PyFlink 2.3.0: ``2026-11-16--16/part-9d00268c-b7fc-4310-8555-d8892e0ffcfb-0``."""
    sink = builder(tmp_path).build()
    clock = ManualClock(NOW)
    writer = write(sink, context(clock=clock), 1, "a")
    clock.advance(3_600_000)
    sink.create_committer().commit(prepared(writer, 2, "b"))
    found = folders(tmp_path)
    assert len(found) == 2 and all(re.fullmatch(r"2023-11-1\d--\d\d", name) for name in found)
    assert sorted(read(FileSource.text(tmp_path))) == ["a", "b"]


def test_the_short_forms_write_into_the_base_path_where_spark_looks(tmp_path: Path) -> None:
    writer = write(FileSink.json_lines(tmp_path, pa.schema([("s", pa.string())])), context(), 1, "a")
    assert folders(tmp_path) == {"."} and writer.notes() == []


def test_an_old_job_goes_on_in_the_base_path_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old_job(tmp_path)
    sink = builder(tmp_path).build()
    with caplog.at_level(logging.WARNING, "penstock"):
        writers = [write(sink, context(index, 2, restored=1), 2, "new") for index in range(2)]
    assert folders(tmp_path) == {"."} and len(visible_files(tmp_path)) == 3
    assert caplog.text.count("goes on in") == 1
    assert "date_time_bucket_assigner" in caplog.text
    for path in visible_files(tmp_path):
        path.unlink()
    notes = tuple(note for writer in writers for note in writer.notes())
    write(sink, context(1, 3, restored=2, restored_notes=notes), 3, "newer")
    assert folders(tmp_path) == {"."}, "what was decided is noted, also when the files are moved away"


def test_an_old_job_with_an_assigner_gets_what_it_chose(tmp_path: Path) -> None:
    old_job(tmp_path)
    hours = builder(tmp_path).with_bucket_assigner(BucketAssigner.date_time_bucket_assigner()).build()
    writer = write(hours, context(generation=2, restored=1), 2, "new")
    assert len(folders(tmp_path)) == 2 and writer.notes() == []


def test_output_in_flight_of_an_old_job_is_committed_to_its_place(tmp_path: Path) -> None:
    old = builder(tmp_path).with_bucket_assigner(FLAT).build()
    (pending,) = prepared(old.create_writer(context()), 1, "old")
    assert isinstance(pending, FileCommittable) and not visible_files(tmp_path)
    new = builder(tmp_path).build()
    new.create_committer().commit([pending])
    write(new, context(generation=2, restored=1), 2, "new")
    assert folders(tmp_path) == {"."} and not hidden_files(tmp_path)
    assert sorted(read(FileSource.text(tmp_path))) == ["new", "old"]


def test_parts_that_an_old_job_holds_for_merging_come_out_in_the_base_path(tmp_path: Path) -> None:
    merged = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    old = builder(tmp_path).with_bucket_assigner(FLAT).enable_compact(merged).build()
    writer = old.create_writer(context())
    assert prepared(writer, 1, "old") == []
    state = tuple(writer.snapshot(Epoch(1)))
    new = builder(tmp_path).enable_compact(merged).build()
    others = new.create_writer(context(1, 2, restored=1))
    again = new.create_writer(context(generation=2, restored=1, restored_state=state))
    new.create_committer().commit([*prepared(again, 2, "new"), *prepared(others, 2, "other")])
    assert folders(tmp_path) == {"."}
    assert sorted(read(FileSource.text(tmp_path))) == ["new", "old"]


def test_a_sink_that_is_new_in_an_old_job_writes_hours(tmp_path: Path) -> None:
    (tmp_path / "part-of-the-story.txt").write_text("somebody else's\n")
    sink = builder(tmp_path).build()
    writer = write(sink, context(restored=7), 8, "a")
    assert len(folders(tmp_path)) == 2
    write(sink, context(1, 2, restored=8, restored_notes=tuple(writer.notes())), 9, "b")
    assert len(folders(tmp_path)) == 2
