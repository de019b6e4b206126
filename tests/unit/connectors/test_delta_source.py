"""The Delta source: the public suite, versions, added columns, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.lake.delta import source as source_module
from penstock.connectors.source import EndOfSplit
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.connectors.delta import DeltaSource
from penstock.testing.conformance import SourceConformance

deltalake = pytest.importorskip("deltalake")
DAY = dt.date(2020, 1, 1)


def write(place: Path, rows: list[dict[str, Any]], schema: pa.Schema, **more: Any) -> None:
    table = pa.Table.from_pylist(rows, schema=schema)
    deltalake.write_deltalake(str(place), table, mode="append", **more)


SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("d", pa.date32())])


class TestDeltaSourceConformance(SourceConformance):
    def make_source(self, directory: Path) -> DeltaSource:
        rows = [{"n": n, "s": "ä/ %=", "d": DAY} for n in range(20)]
        write(directory / "t", rows, SCHEMA, partition_by=["s", "d"])
        write(directory / "t", [{"n": 99, "s": None, "d": None}], SCHEMA)
        return DeltaSource(directory / "t")

    def expected(self) -> list[Any]:
        return [*(Row(n=n, s="ä/ %=", d=DAY) for n in range(20)), Row(n=99, s=None, d=None)]


def read(source: DeltaSource) -> list[Any]:
    source.check()
    rows = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        while True:
            try:
                batch = reader.poll(7)
            except EndOfSplit:
                break
            rows += [] if batch is None else batch.to_rows()
    return rows


def test_delta_source_versions_columns_and_added_columns(tmp_path: Path) -> None:
    old = pa.schema([("n", pa.int64())])
    write(tmp_path, [{"n": 1}], old)
    write(tmp_path, [{"n": 2, "s": "x", "d": DAY}], SCHEMA, schema_mode="merge")
    assert read(DeltaSource(tmp_path, version=0)) == [Row(n=1)]
    newest = read(DeltaSource(tmp_path))
    assert sorted(newest, key=str) == sorted([Row(n=1, s=None, d=None), Row(n=2, s="x", d=DAY)], key=str)
    assert {row["s"] for row in read(DeltaSource(tmp_path, columns=["s"]))} == {None, "x"}


def test_delta_source_divides_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [{"n": n} for n in range(500)], pa.schema([("n", pa.int64())]))
    monkeypatch.setattr(source_module, "SPLIT_BYTES", 500)
    source = DeltaSource(tmp_path)
    assert len(source.splits()) > 1
    assert [row["n"] for row in read(source)] == list(range(500))


def test_delta_source_refuses(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="there is no Delta table"):
        DeltaSource(tmp_path / "nowhere").check()
    write(tmp_path, [{"n": 1}], pa.schema([("n", pa.int64())]))
    with pytest.raises(ConfigError, match="has no column x"):
        DeltaSource(tmp_path, columns=["x"]).check()
