"""The Delta sink: the public suite, repeated and half-done commits, other writers, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common.typeinfo import Types
from penstock.connectors.lake.delta.sink import DeltaCommitter
from penstock.connectors.lake.table_sink import TableConflict
from penstock.connectors.sink import CommitOutcome, Sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.connectors.delta import DeltaSink
from penstock.testing.conformance import SinkConformance

deltalake = pytest.importorskip("deltalake")

SCHEMA = pa.schema([("n", pa.int64()), ("country", pa.string())])


def rows_of(path: Path, options: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """What a reader of the table sees, by deltalake's own query engine."""
    table = deltalake.DeltaTable(str(path), storage_options=options)
    reader = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    return pa.table(reader).to_pylist()


def records(values: list[int]) -> Batch:
    return Batch.of_columns(
        pa.record_batch(
            [pa.array(values, pa.int64()), pa.array([f"c{v % 2}" for v in values])], schema=SCHEMA
        )
    )


class TestDeltaSinkConformance(SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return DeltaSink(directory / "table", SCHEMA)

    def batch(self, values: list[int]) -> Batch:
        return records(values)

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return [row["n"] for row in rows_of(directory / "table")]


class TestPartitionedDeltaSinkConformance(TestDeltaSinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return DeltaSink(directory / "table", SCHEMA, partition_by=["country"])


class _Play(SinkConformance):
    """The suite's engine, for tests of our own."""

    def __init__(self, sink: DeltaSink) -> None:
        sink.check()
        self.sink = sink

    def prepare(self, epoch: int, values: list[int], subtask: int = 0) -> list[Any]:
        writer = self._writer(self.sink, subtask)
        writer.write(records(values))
        return self._barrier(writer, epoch)

    def commit(self, committables: list[Any]) -> list[CommitOutcome]:
        committer = self.sink.create_committer()
        return list(committer.commit(committables))


@pytest.fixture
def play(tmp_path: Path) -> _Play:
    return _Play(DeltaSink(tmp_path / "t", SCHEMA, partition_by=["country"]))


def numbers(path: Path) -> list[int]:
    return sorted(row["n"] for row in rows_of(path))


def test_delta_one_transaction_per_epoch(play: _Play, tmp_path: Path) -> None:
    both = [item for subtask in range(3) for item in play.prepare(1, [subtask], subtask)]
    play.commit(both + play.prepare(2, [10, 11]))
    assert deltalake.DeltaTable(str(tmp_path / "t")).version() == 2
    assert numbers(tmp_path / "t") == [0, 1, 2, 10, 11]


def test_delta_commit_of_some_subtasks_does_not_hide_the_others(play: _Play, tmp_path: Path) -> None:
    """Also out of one epoch: what is noted is noted per subtask."""
    first, second = play.prepare(1, [1], 0), play.prepare(1, [2], 1)
    assert play.commit(first) == [CommitOutcome.COMMITTED]
    assert play.commit(first + second) == [CommitOutcome.ALREADY_COMMITTED, CommitOutcome.COMMITTED]
    assert play.commit(second + first) == [CommitOutcome.ALREADY_COMMITTED] * 2
    assert numbers(tmp_path / "t") == [1, 2]


def test_delta_repeated_commit_after_compaction_and_vacuum(play: _Play, tmp_path: Path) -> None:
    """The files are gone from the table and from the disk; what was committed is known all the same."""
    prepared = play.prepare(1, [1, 3]) + play.prepare(2, [5])
    play.commit(prepared)
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    assert play.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED] * 2
    assert numbers(tmp_path / "t") == [1, 3, 5]


def test_delta_fresh_start_of_the_same_job_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Epochs begin at 1 again; nothing may be dropped as committed earlier."""
    for value in (1, 2):
        again = _Play(DeltaSink(tmp_path / "t", SCHEMA))
        assert again.commit(again.prepare(1, [value])) == [CommitOutcome.COMMITTED]
    assert numbers(tmp_path / "t") == [1, 2]


def test_delta_other_writers_in_between(play: _Play, tmp_path: Path) -> None:
    prepared = play.prepare(1, [1])
    deltalake.write_deltalake(
        str(tmp_path / "t"), pa.table({"n": [7], "country": ["x"]}, schema=SCHEMA), mode="append"
    )
    assert play.commit(prepared) == [CommitOutcome.COMMITTED]
    assert numbers(tmp_path / "t") == [1, 7]


def test_delta_two_drivers_commit_the_same_epoch_at_once(
    play: _Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has looked before the first commits: the log refuses, a second look shows why."""
    prepared = play.prepare(1, [1, 2])
    real = DeltaCommitter.append
    others: list[list[CommitOutcome]] = []

    def late(self: DeltaCommitter, table: Any, items: Any) -> None:
        if not others:
            others.append([])
            others[0] = play.commit(prepared)
        real(self, table, items)

    monkeypatch.setattr(DeltaCommitter, "append", late)
    assert play.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert others == [[CommitOutcome.COMMITTED]]
    assert numbers(tmp_path / "t") == [1, 2]


def test_delta_conflict_that_stays_is_tried_later_and_newer_epochs_wait(
    play: _Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: DeltaCommitter, table: Any, items: Any) -> None:
        raise TableConflict

    with monkeypatch.context() as patch:
        patch.setattr(DeltaCommitter, "append", refused)
        prepared = play.prepare(1, [1]) + play.prepare(2, [2])
        assert play.commit(prepared) == [CommitOutcome.RETRY] * 2
    assert play.commit(prepared) == [CommitOutcome.COMMITTED] * 2


def test_delta_lost_data_file_is_an_error_not_a_broken_table(play: _Play, tmp_path: Path) -> None:
    prepared = play.prepare(1, [1])
    (tmp_path / "t" / prepared[0].files[0].path).unlink()
    with pytest.raises(ConnectorError, match="VACUUM removed it"):
        play.commit(prepared)
    assert numbers(tmp_path / "t") == []


def test_delta_values_types_and_statistics(tmp_path: Path) -> None:
    when = dt.datetime.fromisoformat("2024-05-06T07:08:09.123456")
    day = Types.SQL_DATE()
    kind = Types.ROW_NAMED(
        ["i", "s", "f", "d", "t", "b", "day"],
        [Types.INT(), Types.STRING(), Types.DOUBLE(), day, Types.SQL_TIMESTAMP(), Types.BOOLEAN(), day],
    )
    rows = [
        Row(i=1, s="ä/ %", f=float("nan"), d=dt.date(2024, 1, 1), t=when, b=True, day=dt.date(2020, 1, 2)),
        Row(i=None, s=None, f=2.5, d=None, t=None, b=None, day=None),
    ]
    play = _Play(DeltaSink(tmp_path / "t", kind, partition_by=["s", "day"]))
    writer = play._writer(play.sink)
    writer.write(Batch.of_rows(rows))
    prepared = play._barrier(writer, 1)
    play.commit(prepared)
    shown = sorted(rows_of(tmp_path / "t"), key=lambda row: row["i"] is None)
    assert [row["s"] for row in shown] == ["ä/ %", None]
    assert [row["day"] for row in shown] == [dt.date(2020, 1, 2), None]
    assert shown[0]["t"] == when and shown[0]["d"] == dt.date(2024, 1, 1)
    stats = [json.loads(added.stats) for added in prepared[0].files]
    first = next(each for each in stats if each["minValues"])
    assert first["numRecords"] == 1
    assert first["minValues"] == {"i": 1, "d": "2024-01-01", "t": "2024-05-06T07:08:09.123"}
    assert first["maxValues"] == {"i": 1, "d": "2024-01-01", "t": "2024-05-06T07:08:09.124"}


def test_delta_statistics_do_not_hide_records(play: _Play, tmp_path: Path) -> None:
    play.commit(play.prepare(1, [1, 3]) + play.prepare(2, [5, 7]))
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    assert len(table.file_uris()) == 2
    query = deltalake.QueryBuilder().register("t", table)
    assert pa.table(query.execute("select n from t where n > 3 and country = 'c1'")).num_rows == 2


def test_delta_large_files_roll(tmp_path: Path) -> None:
    play = _Play(DeltaSink(tmp_path / "t", SCHEMA, target_file_size=1))
    writer = play._writer(play.sink)
    for _ in range(3):
        writer.write(records([1]))
    assert len(play._barrier(writer, 1)[0].files) == 3


def test_delta_close_removes_what_was_not_handed_out(play: _Play, tmp_path: Path) -> None:
    writer = play._writer(play.sink)
    writer.write(records([1, 2]))
    writer.flush(False)
    writer.write(records([3]))
    writer.close()
    assert not list((tmp_path / "t").rglob("*.parquet"))


def test_delta_refuses_at_submission(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(ConfigError, match="does not know the records' columns"):
        DeltaSink(path).check()
    DeltaSink(path, SCHEMA, partition_by=["country"]).check()
    DeltaSink(path).check()
    with pytest.raises(ConfigError, match="has column 'n' of type int64, the records have string"):
        DeltaSink(path, pa.schema([("n", pa.string()), ("country", pa.string())])).check()
    with pytest.raises(ConfigError, match="has no column other"):
        DeltaSink(path, pa.schema([("other", pa.int64()), ("country", pa.string())])).check()
    with pytest.raises(ConfigError, match="is partitioned by"):
        DeltaSink(path, SCHEMA, partition_by=["n"]).check()
    with pytest.raises(ConfigError, match="need its partition columns"):
        DeltaSink(path, pa.schema([("n", pa.int64())])).check()
    with pytest.raises(ConfigError, match="not among the columns"):
        DeltaSink(tmp_path / "new", SCHEMA, partition_by=["x"]).check()
    deltalake.DeltaTable(str(path)).alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(ConfigError, match=r"delta\.constraints\.positive"):
        DeltaSink(path, SCHEMA).check()


def test_delta_unwritable_place_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConnectorError, match="cannot be"):
        DeltaSink(tmp_path / "file" / "t", SCHEMA).check()


def test_delta_secrets_are_not_shown(tmp_path: Path) -> None:
    sink = DeltaSink(tmp_path / "t", SCHEMA, storage_options={"AWS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" not in repr(sink) + repr(sink._address)


def test_delta_nulls_where_the_table_allows_none(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    play = _Play(DeltaSink(tmp_path / "t", schema))
    writer = play._writer(play.sink)
    with pytest.raises(ConnectorError, match="may not be null"):
        writer.write(Batch.of_rows([{"n": None}]))


def test_delta_files_are_plain_parquet(play: _Play, tmp_path: Path) -> None:
    play.commit(play.prepare(1, [1]))
    (path,) = (tmp_path / "t").glob("country=c1/*.parquet")
    assert pq.read_schema(path).names == ["n"]


def test_delta_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock\[delta\]'"):
        DeltaSink(tmp_path / "t", SCHEMA).check()
