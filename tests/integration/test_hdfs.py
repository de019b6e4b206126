"""HDFS: checkpoints, files and manifests on a real name node and data node."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from test_table_jobs import ROW, listed_parquet, numbers

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.files.parts import JsonLinesEncoder
from penstock.core.errors import ConnectorError
from penstock.core.row import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import CsvFormat, FileSink, FileSource
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store
from penstock.storage.places import join, storage_of
from penstock.testing.conformance import SinkConformance
from penstock.testing.conformance.store_suite import StoreSuite
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, cued_source
from penstock.testing.servers import HdfsServer


@pytest.fixture
def place(hdfs_server: HdfsServer) -> str:
    """A directory that nobody else uses."""
    return f"{hdfs_server.url}/{uuid.uuid4().hex}"


class TestHdfsStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _use(self, hdfs_server: HdfsServer) -> None:
        self._url = hdfs_server.url

    def new_store(self) -> SnapshotStore:
        return open_store(f"{self._url}/{uuid.uuid4().hex}")


class TestHdfsFileSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def _use(self, hdfs_server: HdfsServer) -> None:
        self._base = f"{hdfs_server.url}/{uuid.uuid4().hex}/out"

    def make_sink(self, directory: Path) -> FileSink:
        return FileSink.for_row_format(self._base, JsonLinesEncoder()).build()

    def files(self) -> dict[str, bytes]:
        fs, root = fsspec.url_to_fs(self._base)
        return {path.rpartition("/")[2]: fs.cat_file(path) for path in fs.find(root)}

    def visible(self, sink: FileSink, directory: Path) -> list[bytes]:
        return [line for name, data in self.files().items() if name[0] != "." for line in data.splitlines()]

    def leftovers(self, directory: Path) -> list[str]:
        return [name for name in self.files() if name[0] == "."]


def test_hdfs_renames_only_onto_free_names(place: str) -> None:
    storage = storage_of(place)
    names = [join(place, name) for name in ("a b=%2F", "c#1", "d")]
    for name in names[:2]:
        stream = storage.create(name)
        stream.write(name.encode())
        storage.seal(stream)
    with pytest.raises(ConnectorError, match="exists already"):
        storage.move(*names[:2])
    with pytest.raises(FileNotFoundError):
        storage.move(names[2], join(place, "e"))
    storage.move(names[0], names[2])
    assert storage.list_files(place) == names[1:]
    assert storage.open_read(names[2]).read() == names[0].encode()
    assert (storage.size(names[2]), storage.size(names[0])) == (len(names[0].encode()), None)


def test_hdfs_files_are_read_in_parts(place: str) -> None:
    lines = "".join(f"{n},x\n" for n in range(200)).encode()
    storage = storage_of(place)
    stream = storage.create(join(place, "in", "a.csv"))
    stream.write(lines)
    storage.seal(stream)
    schema = pa.schema([("n", pa.int64()), ("country", pa.string())])
    source = FileSource.for_record_stream_format(CsvFormat(schema), f"{place}/in/*.csv")
    parts = source.with_split_size(300).build()
    assert len(list(parts.create_enumerator(1).discover())) > 2
    assert numbers(parts) == list(range(200))


def test_hdfs_job_with_checkpoints_files_and_manifest(place: str, tmp_path: Path) -> None:
    """Everything on HDFS; the job crashes; each record is listed once, and the checkpoints are gone."""
    settings = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": f"{place}/chk",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "5 ms",
    }
    rows = [Row(n=n, country=f"c/{n % 2}") for n in range(20)]
    cues = [*rows[:7], AwaitCheckpoint(), *rows[7:13], AwaitCheckpoint(), Crash(), *rows[13:]]
    source = cued_source(cues, directory=tmp_path / "cue")
    sink, read = listed_parquet(f"{place}/out")
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in", type_info=ROW).uid("in")
    stream.sink_to(sink).uid("out")
    with local_cluster(slots=1):
        env.execute("on hdfs")
    assert sorted(read()) == list(range(20))
    assert sorted(numbers(FileSource.parquet(f"{place}/out"))) == list(range(20))
    assert open_store(f"{place}/chk", create=False).list() == []
