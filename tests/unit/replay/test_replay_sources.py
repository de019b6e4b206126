"""Sources cut to a piece: what is asked of the original, and when a fork takes one to be quiet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.combinators.materialized import MaterialisedSource
from penstock.connectors.combinators.source_wrapper import CutSource
from penstock.connectors.log import Log, LogSource, Producer, Text
from penstock.connectors.source import EndOfSplit, Split, SplitReader
from penstock.core.clock import Clock, ManualClock
from penstock.core.errors import ConfigError
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.replay.forking import BoundedSource, Until
from penstock.replay.replayed import Piece, ReplayedSource, replayed
from penstock.replay.substitute import part_by_part

UNTIMED = WatermarkStrategy.no_watermarks()


class Asked(LogSource):
    """Counts how often it is asked where a split ends."""

    count = 0

    def end_offset(self, split: Split) -> int | None:
        self.count += 1
        return super().end_offset(split)


def log_of(root: Path) -> Asked:
    Log(root).create_topic("t", partitions=1)
    with Producer(Log(root).topic("t")) as producer:
        producer.send(b"1", timestamp=1)
        producer.sync()
    return Asked(root, "t", Text())


def test_a_restored_split_is_not_looked_up_for_every_batch(tmp_path: Path) -> None:
    source = log_of(tmp_path)
    (split,) = source.create_enumerator(1).discover()
    replayed = ReplayedSource(source, UNTIMED, Piece())
    replayed.ends.clear()
    source.count = 0
    for _ in range(5):
        assert not replayed.holds_time(split) and not replayed.reads_in_order(split)
    assert source.count == 0
    reader = replayed.open_split(split, None, ManualClock(0))
    assert source.count == 1
    batch = reader.poll(10)
    assert batch is not None and batch.to_rows() == ["1"]
    with pytest.raises(EndOfSplit):
        reader.poll(10)


def test_a_replay_that_starts_again_reads_its_piece_again(tmp_path: Path) -> None:
    replayed = ReplayedSource(log_of(tmp_path), UNTIMED, Piece())
    (split,) = replayed.create_enumerator(1).discover()
    assert replayed.from_end(split) == split


def test_a_reader_that_passes_over_records_is_not_quiet(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(2000))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=100, write_statistics=False)
    source = FileSource.parquet(tmp_path, filter=pc.field("n") == 1999)
    clock = ManualClock(0)
    bounded = BoundedSource(source, UNTIMED, Until(quiet_s=0.5))
    (split,) = bounded.create_enumerator(1).discover()
    reader = bounded.open_split(split, None, clock)
    found = []
    with pytest.raises(EndOfSplit):
        while True:
            batch = reader.poll(100)
            found += [] if batch is None else [row.n for row in batch.to_rows()]
            clock.advance(1000)
    assert found == [1999]


class Telling(LogSource):
    """Tells the outside how far a job has come, as Kafka's does."""

    told: ClassVar[list[int]] = []

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        reader.on_checkpoint_complete = self.told.append  # type: ignore[method-assign]
        return reader


def test_a_source_that_reads_several_in_turn_ends_in_each(tmp_path: Path) -> None:
    class Looking(LogSource):
        discovery_interval_ms = 1000

    log_of(tmp_path / "log")
    live = Looking(tmp_path / "log", "t", Text())
    (tmp_path / "old.txt").write_text("0\n")
    hybrid = HybridSource.builder(FileSource.text(tmp_path / "old.txt")).add_source(live).build()
    forked = part_by_part(hybrid, lambda part: BoundedSource(part, UNTIMED, Until()))
    pieces, parts = replayed(hybrid, UNTIMED, Piece())
    assert [part.ends for part in parts] == [{str(tmp_path / "old.txt"): None}, {"t-0": 1}]
    for source in (forked, pieces):
        enumerator = source.create_enumerator(1)
        enumerator.on_finished([split.id for split in enumerator.discover()])
        assert [split.id for split in enumerator.discover()] == ["t-0"]
        assert source.bounded and enumerator.is_exhausted(), "no partition that comes later takes part"


def test_files_that_came_since_the_replay_to_compare_with_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    source = FileSource.text(tmp_path)
    _, (then,) = replayed(source, UNTIMED, Piece())
    (tmp_path / "b.txt").write_text("2\n")
    now, _ = replayed(source, UNTIMED, Piece(only=frozenset(then.ends)))
    assert [split.id for split in now.create_enumerator(1).discover()] == [str(tmp_path / "a.txt")]


def test_files_that_are_all_new_are_not_taken_for_an_empty_input(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("2\n")
    with pytest.raises(ConfigError, match="not divided as it was"):
        replayed(FileSource.text(tmp_path), UNTIMED, Piece(only=frozenset(["a.txt"])))


def test_a_table_is_read_again_though_its_files_have_other_names(tmp_path: Path) -> None:
    def write(directory: str) -> list[str]:
        name = f"{uuid4().hex}.parquet"
        pq.write_table(pa.table({"n": [1]}), Path(directory, name))
        return [name]

    _, (then,) = replayed(MaterialisedSource(write, str(tmp_path)), UNTIMED, Piece())
    now, _ = replayed(MaterialisedSource(write, str(tmp_path)), UNTIMED, Piece(only=frozenset(then.ends)))
    assert len(list(now.create_enumerator(1).discover())) == 1


def test_the_progress_of_a_replay_is_told_to_nobody(tmp_path: Path) -> None:
    log_of(tmp_path)
    source = Telling(tmp_path, "t", Text())
    replayed = ReplayedSource(source, UNTIMED, Piece())
    for other in (replayed, BoundedSource(source, UNTIMED, Until())):
        (split,) = other.create_enumerator(1).discover()
        other.open_split(split, None, ManualClock(0)).on_checkpoint_complete(1)
    assert source.told == []
    (split,) = source.create_enumerator(1).discover()
    live = CutSource(source, UNTIMED, 0, None).open_split(split, None, ManualClock(0))
    live.on_checkpoint_complete(1)
    assert source.told == [1], "a backfill is the real job"


def test_what_is_cut_out_does_not_make_the_task_wait_each_time(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("".join(f"{number}\n" for number in range(50)))
    by_value = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: int(v))
    source = CutSource(FileSource.text(tmp_path), by_value, 40, 45)
    (split,) = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, ManualClock(0))
    polled = [reader.poll(5) for _ in range(2)]
    assert [None if batch is None else batch.to_rows() for batch in polled] == [
        None,
        [str(number) for number in range(40, 45)],
    ]
    assert reader.position() == (tmp_path / "x.txt").read_text().index("45\n")
