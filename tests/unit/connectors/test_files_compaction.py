"""Compaction: several files of a sink become one, exactly, whatever happens between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from files_kit import SCHEMA, PartitionedParquet, Play, hidden_files, read, records, visible_files

from penstock.common import Encoder
from penstock.connectors.sink import Sink
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch
from penstock.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
)


def compacting(place: Path, checkpoints: int | None = 3, size: int | None = None) -> FileSink:
    return FileSink.parquet(place, SCHEMA, compact=FileCompactStrategy(checkpoints, size))


def numbers(place: Path) -> list[int]:
    return sorted(row["n"] for row in read(FileSource.parquet(place)))


class TestCompactingSinkThatMergesAtOnce(PartitionedParquet):
    def make_sink(self, directory: Path) -> Sink:
        return FileSink.parquet(
            directory / "out",
            SCHEMA,
            partition_by=["country"],
            rolling=RollingPolicy.default_rolling_policy(part_size=1),
            compact=FileCompactStrategy(checkpoints=1),
        )


def test_files_compaction_gives_one_file_for_several_checkpoints(tmp_path: Path) -> None:
    play = Play(compacting(tmp_path))
    for epoch in (1, 2):
        play.epoch(epoch, records([epoch]))
        assert visible_files(tmp_path) == [] and len(hidden_files(tmp_path)) == epoch
    play.epoch(3, records([3]))
    (only,) = visible_files(tmp_path)
    assert only.name.startswith("compacted-part-") and only.name.endswith(".parquet")
    assert hidden_files(tmp_path) == [] and numbers(tmp_path) == [1, 2, 3]
    assert pq.ParquetFile(only).num_row_groups == 1


def test_files_compaction_by_size_leaves_large_files_alone(tmp_path: Path) -> None:
    play = Play(FileSink.json_lines(tmp_path, SCHEMA, compact=FileCompactStrategy(size_threshold=60)))
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
            play = Play(compacting(place, 2))
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
    play = Play(compacting(tmp_path, 2))
    play.epoch(1, records([1]))
    play.epoch(2, records([]))
    play.restart(1)
    assert "they were merged after it was taken" in caplog.text
    play.writer.flush(True)
    play.epoch(4, records([3]))
    assert numbers(tmp_path) == [1, 3]


def test_files_compaction_at_another_parallelism(tmp_path: Path) -> None:
    """Who cleans up does not hold the files himself, and leaves those that another subtask was dealt."""
    play = Play(compacting(tmp_path, 5))
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
    play = Play(compacting(tmp_path, 10))
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
    play = Play(sinks[form]())
    play.epoch(1, records([1]))
    play.epoch(2, records([2]))
    assert len(visible_files(tmp_path)) == 1
    found = read(sources[form]())
    assert len(found) == 3 if form == "text" else [row["n"] for row in found] == [1, 2]


def test_files_identical_compactor_only_delays(tmp_path: Path) -> None:
    strategy = FileCompactStrategy(checkpoints=2)
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    play = Play(sink.enable_compact(strategy, FileCompactor.identical_file_compactor()).build())
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
