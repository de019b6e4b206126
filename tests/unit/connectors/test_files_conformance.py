"""The file source and sink against the public suites."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.manifest import Manifest, place_of
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.parts import JsonLinesEncoder
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import FileSource
from penstock.core.batch import Batch
from penstock.core.row import Row
from penstock.testing.conformance import SinkConformance, SourceConformance


class TestTextSource(SourceConformance):
    def make_source(self, directory):
        (directory / "a.txt").write_bytes("eins\r\nzwei\n\nfünf\n".encode())
        (directory / "b.txt").write_bytes(b"".join(b"line %d\n" % i for i in range(20)) + b"last")
        (directory / "empty.txt").touch()
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory).build()

    def expected(self):
        return ["eins", "zwei", "", "fünf", *(f"line {i}" for i in range(20)), "last"]


def write_parquet(directory: Path) -> None:
    table = pa.table({"id": range(23), "name": [f"n{i}" for i in range(23)]})
    pq.write_table(table, directory / "a.parquet", row_group_size=5)
    pq.write_table(table.slice(0, 4), directory / "b.parquet")


class TestParquetSource(SourceConformance):
    def make_source(self, directory):
        write_parquet(directory)
        return FileSource.parquet(directory)

    def expected(self):
        return [Row(id=i, name=f"n{i}") for i in (*range(23), *range(4))]


class TestFilteredParquetSource(SourceConformance):
    def make_source(self, directory):
        write_parquet(directory)
        wanted = (pc.field("id") > 6) & (pc.field("id") < 19) & (pc.field("id") != 12)
        return FileSource.for_bulk_file_format(
            ParquetFormat(["name"], wanted), directory / "a.parquet"
        ).build()

    def expected(self):
        return [Row(name=f"n{i}") for i in range(7, 19) if i != 12]


class TestRemoteTextSource(SourceConformance):
    counter = itertools.count()

    def make_source(self, directory):
        import fsspec

        base = f"memory://texts{next(self.counter)}"
        with fsspec.open(f"{base}/a.txt", "wb") as stream:
            stream.write(b"a\nb\nc")
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), base).build()

    def expected(self):
        return ["a", "b", "c"]


def finished(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file() and not p.name.startswith("."))


def hidden(directory: Path) -> list[Path]:
    return [p for p in directory.rglob(".*") if p.is_file()]


class TestRowFileSink(SinkConformance):
    def make_sink(self, directory):
        return (
            FileSink.for_row_format(directory / "out", JsonLinesEncoder())
            .with_bucket_assigner(lambda value: f"mod={value % 2}")
            .build()
        )

    def visible(self, sink, directory):
        return [line for path in finished(directory) for line in path.read_text().splitlines()]

    def leftovers(self, directory):
        return hidden(directory)


class TestParquetFileSink(SinkConformance):
    def make_sink(self, directory):
        schema = pa.schema([("n", pa.int64())])
        return FileSink.for_bulk_format(directory / "out", ParquetWriterFactory(schema)).build()

    def batch(self, values):
        return Batch.of_columns(pa.record_batch({"n": pa.array(values, pa.int64())}))

    def visible(self, sink, directory):
        return [n for path in finished(directory) for n in pq.read_table(path)["n"].to_pylist()]

    def leftovers(self, directory):
        return hidden(directory)


class TestListedFileSink(SinkConformance):
    """With a manifest; what it lists is what is visible."""

    def make_sink(self, directory):
        return FileSink.for_row_format(directory / "out", JsonLinesEncoder()).with_manifest().build()

    def visible(self, sink, directory):
        urls = Manifest(place_of(str(directory / "out"))).listed()
        assert {url.removeprefix("file://") for url in urls} == {
            str(path) for path in finished(directory) if path.parent.name != "_spark_metadata"
        }
        return [line for url in urls for line in Path(url.removeprefix("file://")).read_text().splitlines()]

    def leftovers(self, directory):
        return [path for path in hidden(directory) if path.name != ".penstock"]


class TestRemoteFileSink(SinkConformance):
    counter = itertools.count()

    def make_sink(self, directory):
        self.base = f"memory://out{next(self.counter)}/files"
        return FileSink.for_row_format(self.base, JsonLinesEncoder()).build()

    def files(self):
        import fsspec

        fs = fsspec.filesystem("memory")
        return {path.rpartition("/")[2]: fs.cat(path) for path in fs.find(self.base)}

    def visible(self, sink, directory):
        return [line for name, data in self.files().items() if name[0] != "." for line in data.splitlines()]

    def leftovers(self, directory):
        return [name for name in self.files() if name[0] == "."]
