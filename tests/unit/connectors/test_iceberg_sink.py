"""The Iceberg sink: the public suite, repeated and half-done commits, other writers, and what is refused."""

from __future__ import annotations

import datetime as dt
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.typeinfo import Types
from penstock.connectors.lake.iceberg import IcebergCommitter
from penstock.connectors.sink import CommitOutcome, Sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.testing.conformance import SinkConformance

catalogs = pytest.importorskip("pyiceberg.catalog")
pytest.importorskip("sqlalchemy")

SCHEMA = pa.schema([("n", pa.int64()), ("country", pa.string())])


def properties(directory: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/wh"}


def sink_in(directory: Path, schema: Any = SCHEMA, **more: Any) -> IcebergSink:
    return IcebergSink("db.t", schema, properties=properties(directory), **more)


def table_in(directory: Path) -> Any:
    return catalogs.load_catalog("default", **properties(directory)).load_table("db.t")


def rows_of(directory: Path) -> list[dict[str, Any]]:
    return table_in(directory).scan().to_arrow().to_pylist()


def numbers(directory: Path) -> list[int]:
    return sorted(row["n"] for row in rows_of(directory))


def records(values: list[int]) -> Batch:
    countries = pa.array([f"c{value % 2}" for value in values], pa.string())
    return Batch.of_columns(pa.record_batch([pa.array(values, pa.int64()), countries], schema=SCHEMA))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    yield


class TestIcebergSinkConformance(SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return sink_in(directory, partition_by=["country"])

    def batch(self, values: list[int]) -> Batch:
        return records(values)

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return [row["n"] for row in rows_of(directory)]


class _Play(SinkConformance):
    """The suite's engine, for tests of our own."""

    def __init__(self, sink: IcebergSink) -> None:
        sink.check()
        self.sink = sink

    def prepare(self, epoch: int, values: list[int], subtask: int = 0) -> list[Any]:
        writer = self._writer(self.sink, subtask)
        writer.write(records(values))
        return self._barrier(writer, epoch)

    def commit(self, committables: list[Any]) -> list[CommitOutcome]:
        return list(self.sink.create_committer().commit(committables))


@pytest.fixture
def play(tmp_path: Path) -> _Play:
    return _Play(sink_in(tmp_path, partition_by=["country"]))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a b/ü", None, "", "null", "x%20", "y" * 20, "y" * 21]),
        (pa.bool_(), [True, False, None]),
        (pa.float64(), [1.5, None]),
    ],
)
def test_iceberg_partitions_of_any_value(tmp_path: Path, kind: Any, values: list[Any]) -> None:
    schema = pa.schema([("n", pa.int64()), ("p", kind)])
    play = _Play(sink_in(tmp_path, schema, partition_by=["p"]))
    writer = play._writer(play.sink, 0)
    numbered = pa.array(range(len(values)), pa.int64())
    writer.write(Batch.of_columns(pa.record_batch([numbered, pa.array(values, kind)], schema=schema)))
    play.commit(play._barrier(writer, 1))
    assert [row["p"] for row in sorted(rows_of(tmp_path), key=lambda row: row["n"])] == values
    for number, value in enumerate(values):
        wanted = "p is null" if value is None else f"p = {value!r}"
        assert [row["n"] for row in table_in(tmp_path).scan(wanted).to_arrow().to_pylist()] == [number]


@pytest.mark.parametrize("value", [float("nan"), "y" * 5000])
def test_iceberg_refuses_partitions_that_readers_would_not_find(tmp_path: Path, value: Any) -> None:
    column = pa.array([value])
    schema = pa.schema([("n", pa.int64()), ("p", column.type)])
    play = _Play(sink_in(tmp_path, schema, partition_by=["p"]))
    writer = play._writer(play.sink, 0)
    writer.write(Batch.of_columns(pa.record_batch([pa.array([1]), column], schema=schema)))
    with pytest.raises(ConnectorError, match="cannot be a partition of an Iceberg table"):
        play._barrier(writer, 1)


def test_iceberg_one_snapshot_per_epoch(play: _Play, tmp_path: Path) -> None:
    both = [item for subtask in range(3) for item in play.prepare(1, [subtask], subtask)]
    play.commit(both + play.prepare(2, [10, 11]))
    assert len(table_in(tmp_path).history()) == 2
    assert table_in(tmp_path).current_snapshot().summary["penstock.epoch"] == "2"
    assert numbers(tmp_path) == [0, 1, 2, 10, 11]


def test_iceberg_commit_of_some_subtasks_does_not_hide_the_others(play: _Play, tmp_path: Path) -> None:
    first, second = play.prepare(1, [1], 0), play.prepare(1, [2], 1)
    assert play.commit(first) == [CommitOutcome.COMMITTED]
    assert play.commit(first + second) == [CommitOutcome.ALREADY_COMMITTED, CommitOutcome.COMMITTED]
    assert play.commit(second + first) == [CommitOutcome.ALREADY_COMMITTED] * 2
    assert numbers(tmp_path) == [1, 2]


def test_iceberg_repeated_commit_after_snapshots_are_expired(play: _Play, tmp_path: Path) -> None:
    """What was committed is known without the snapshot that did it."""
    prepared = play.prepare(1, [1])
    play.commit(prepared)
    play.commit(play.prepare(1, [3], subtask=1))
    table = table_in(tmp_path)
    table.maintenance.expire_snapshots().by_id(table.history()[0].snapshot_id).commit()
    assert play.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert numbers(tmp_path) == [1, 3]


def test_iceberg_fresh_start_of_the_same_job_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    for value in (1, 2):
        again = _Play(sink_in(tmp_path))
        assert again.commit(again.prepare(1, [value])) == [CommitOutcome.COMMITTED]
    assert numbers(tmp_path) == [1, 2]


def test_iceberg_two_drivers_commit_the_same_epoch_at_once(
    play: _Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has looked before the first commits; nothing may be appended without looking again."""
    prepared = play.prepare(1, [1, 2])
    real = IcebergCommitter._check
    others: list[list[CommitOutcome]] = []

    def late(self: IcebergCommitter, table: Any) -> None:
        if not others:
            others.append([])
            others[0] = play.commit(prepared)
        real(self, table)

    monkeypatch.setattr(IcebergCommitter, "_check", late)
    assert play.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert others == [[CommitOutcome.COMMITTED]]
    assert numbers(tmp_path) == [1, 2]


def test_iceberg_other_writers_in_between(
    play: _Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = play.prepare(1, [1])
    real = IcebergCommitter._check
    asked: list[int] = []

    def late(self: IcebergCommitter, table: Any) -> None:
        if not asked:
            table_in(tmp_path).append(pa.table({"n": [7], "country": ["x"]}, schema=SCHEMA))
        asked.append(1)
        real(self, table)

    monkeypatch.setattr(IcebergCommitter, "_check", late)
    assert play.commit(prepared) == [CommitOutcome.COMMITTED]
    assert numbers(tmp_path) == [1, 7] and len(asked) == 2
    assert "commit.retry.num-retries" not in table_in(tmp_path).properties


def test_iceberg_lost_data_file_is_an_error_not_a_broken_table(play: _Play, tmp_path: Path) -> None:
    prepared = play.prepare(1, [1])
    Path(prepared[0].paths[0].removeprefix("file://")).unlink()
    with pytest.raises(ConnectorError, match="cannot commit to the Iceberg table"):
        play.commit(prepared)
    assert numbers(tmp_path) == []


def test_iceberg_values_and_types(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(
        ["i", "s", "d", "b", "t"],
        [Types.INT(), Types.STRING(), Types.SQL_DATE(), Types.BOOLEAN(), Types.SQL_TIMESTAMP()],
    )
    when = dt.datetime.fromisoformat("2024-05-06T07:08:09.123456")
    rows = [
        Row(i=1, s="ä/ %" * 20, d=dt.date(2024, 1, 1), b=True, t=when),
        Row(i=None, s=None, d=None, b=None, t=None),
    ]
    play = _Play(sink_in(tmp_path, kind, partition_by=["s", "d"]))
    writer = play._writer(play.sink)
    writer.write(Batch.of_rows(rows))
    play.commit(play._barrier(writer, 1))
    shown = sorted(rows_of(tmp_path), key=lambda row: row["i"] is None)
    assert shown == [row.as_dict() for row in rows]
    assert table_in(tmp_path).scan("i > 0 and b = true").to_arrow().num_rows == 1


def test_iceberg_refuses_at_submission(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a namespace"):
        IcebergSink("orders")
    with pytest.raises(ConfigError, match="does not know the records' columns"):
        sink_in(tmp_path, None).check()
    sink_in(tmp_path, partition_by=["country"]).check()
    sink_in(tmp_path, None).check()
    with pytest.raises(ConfigError, match="has column 'n' of type int64, the records have string"):
        sink_in(tmp_path, pa.schema([("n", pa.string()), ("country", pa.string())])).check()
    with pytest.raises(ConfigError, match="is partitioned by"):
        sink_in(tmp_path, partition_by=["n"]).check()
    with table_in(tmp_path).update_spec() as spec:
        spec.add_field("n", "bucket[4]")
    with pytest.raises(ConfigError, match=r"is partitioned by bucket\[4\] of a column"):
        sink_in(tmp_path).check()


def test_iceberg_secrets_are_not_shown(tmp_path: Path) -> None:
    sink = IcebergSink("db.t", SCHEMA, properties={"type": "sql", "uri": "postgresql+no://me:hush@x/db"})
    assert "hush" not in repr(sink) + repr(sink._address)
    with pytest.raises(ConnectorError) as caught:
        sink.check()
    assert "hush" not in str(caught.value) and caught.value.__cause__ is None


def test_iceberg_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock\[iceberg\]'"):
        sink_in(tmp_path).check()
