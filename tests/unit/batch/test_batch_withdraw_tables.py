"""A BATCH job that fails before its commit removes the data files that no commit of the table will name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.common import Row
from penstock.connectors.lake.iceberg import FileIOStorage
from penstock.connectors.sink import Sink
from penstock.coordinator.connectors import JobConnectors
from penstock.core.errors import JobFailedError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.testing.local import local_cluster

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog")
pytest.importorskip("sqlalchemy")

SCHEMA = pa.schema([("n", pa.int64()), ("part", pa.string())])


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def properties(place: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/wh"}


def delta(place: Path) -> Sink:
    return DeltaSink(str(place / "table"), SCHEMA, partition_by=["part"])


def iceberg(place: Path) -> Sink:
    return IcebergSink("db.t", SCHEMA, properties=properties(place), partition_by=["part"])


def count(place: Path) -> int:
    if (place / "table").exists():
        return int(deltalake.DeltaTable(str(place / "table")).to_pyarrow_table().num_rows)
    return int(
        catalogs.load_catalog("default", **properties(place)).load_table("db.t").scan().to_arrow().num_rows
    )


def data_files(place: Path) -> set[Path]:
    return set(place.rglob("part-*.parquet"))


def run(sink: Sink, fail: bool) -> None:
    """Numbers into a sink of two subtasks; the second fails when the first has prepared."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(2)

    def look(value: int) -> Row:
        if fail and value == 99:
            raise ValueError("no")
        return Row(n=value, part=f"p{value % 3}")

    env.from_collection(range(100)).rebalance().map(look).sink_to(sink).uid("sink")
    env.execute("job")


@pytest.mark.parametrize("make", [delta, iceberg])
def test_a_failed_run_leaves_only_what_others_have_written(
    make: Callable[[Path], Sink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(make(tmp_path), False)
    committed = data_files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(JobConnectors, "withdraw", lambda *_: None)
        with pytest.raises(JobFailedError, match="ValueError"):
            run(make(tmp_path), True)
    of_a_dead_driver = data_files(tmp_path) - committed
    assert of_a_dead_driver, "without it something is left"
    with pytest.raises(JobFailedError, match="ValueError"):
        run(make(tmp_path), True)
    assert data_files(tmp_path) == committed | of_a_dead_driver
    assert count(tmp_path) == 100
    run(make(tmp_path), False)
    assert count(tmp_path) == 200


@pytest.mark.parametrize("make", [delta, iceberg])
def test_a_run_that_wrote_nothing_has_nothing_to_remove(
    make: Callable[[Path], Sink], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(1)
    env.from_collection([0]).map(lambda value: 1 // value).sink_to(make(tmp_path)).uid("sink")
    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        env.execute("job")
    assert not data_files(tmp_path) and "could not be removed" not in caplog.text


def test_files_of_a_remote_table_are_found_through_its_own_client(tmp_path: Path) -> None:
    io = pytest.importorskip("pyiceberg.io.pyarrow").PyArrowFileIO()
    storage, base = FileIOStorage(io), f"file://{tmp_path}/data"
    assert storage.list_files(base) == []
    for name in ("a.parquet", "x=1/b.parquet"):
        storage.seal(storage.create(f"{base}/{name}"))
    assert sorted(storage.list_files(base)) == [f"{base}/a.parquet", f"{base}/x=1/b.parquet"]
    storage.remove(storage.list_files(base)[0])
    assert len(storage.list_files(base)) == 1
    assert FileIOStorage(object()).list_files(base) == []
