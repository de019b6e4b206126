"""CSV, JSON lines, ORC, packed files, parts of files, partitioned directories: the suite and more."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from penstock.common import Types
from penstock.connectors.files import lines as lines_module
from penstock.connectors.files.csv import CsvDialect, CsvFormat
from penstock.connectors.files.formats import FileRange
from penstock.connectors.files.json_lines import JsonLinesFormat
from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.connectors.file_system import FileSource
from penstock.formats.bad_records import BadRecords, Diverted, ErrorPolicy
from penstock.testing.conformance import SourceConformance

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CSV = '1,one\n2,"two, ""2"""\n\n3,\n,"four"\r\n' + "".join(f"{n},n{n}\n" for n in range(5, 30)) + "30,last"
CSV_ROWS = [
    Row(id=1, name="one"), Row(id=2, name='two, "2"'), Row(id=3, name=None), Row(id=None, name="four"),
    *(Row(id=n, name=f"n{n}") for n in range(5, 30)), Row(id=30, name="last"),
]  # fmt: skip


class TestCsvSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        (directory / "a.csv").write_text(CSV, newline="")
        return FileSource.csv(directory, schema=SCHEMA)

    def expected(self) -> list[Any]:
        return CSV_ROWS


class TestCsvInSmallParts(TestCsvSource):
    def make_source(self, directory: Path) -> FileSource:
        (directory / "a.csv").write_text("name,more,id\n" + "".join(f"n{n},x,{n}\n" for n in range(40)))
        wanted = CsvFormat(SCHEMA, CsvDialect(header=True))
        return FileSource.for_record_stream_format(wanted, directory).with_split_size(7).build()

    def expected(self) -> list[Any]:
        return [Row(id=n, name=f"n{n}") for n in range(40)]


class TestMultilineCsvSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        lines = "".join(f'{n},"a\n""b"",\n{n}"\n' for n in range(20))
        (directory / "a.csv").write_text("id,name\n" + lines)
        return FileSource.csv(directory, schema=SCHEMA, header=True, multiline=True)

    def expected(self) -> list[Any]:
        return [Row(id=n, name=f'a\n"b",\n{n}') for n in range(20)]


class TestPackedSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        (directory / "a.gz").write_bytes(gzip.compress(b"".join(b"line %d\n" % n for n in range(20))))
        (directory / "b.bz2").write_bytes(bz2.compress(b"x\ny"))
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory).build()

    def expected(self) -> list[Any]:
        return [*(f"line {n}" for n in range(20)), "x", "y"]


class TestJsonLinesSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        lines = [f'{{"id": {n}, "name": "n\\n{n}", "other": []}}' for n in range(20)]
        (directory / "a.json").write_text("\n".join([*lines[:5], "", *lines[5:], '{"name": "no id"}']))
        return FileSource.json_lines(directory, schema=SCHEMA)

    def expected(self) -> list[Any]:
        return [*(Row(id=n, name=f"n\n{n}") for n in range(20)), Row(id=None, name="no id")]


class TestJsonObjectsSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        (directory / "a.json").write_text('{"a": [1, {"b": null}]}\n\n7\n' * 6)
        return FileSource.json_lines(directory)

    def expected(self) -> list[Any]:
        return [{"a": [1, {"b": None}]}, 7] * 6


class TestOrcSource(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        table = pa.table({"id": range(3000), "name": [f"n{n}" for n in range(3000)]})
        writer = orc.ORCWriter(str(directory / "a.orc"), stripe_size=1024, batch_size=64)
        for start in range(0, 3000, 1000):
            writer.write(table.slice(start, 1000))
        writer.close()
        orc.write_table(table.slice(0, 5), str(directory / "b.orc"))
        return FileSource.orc(directory, columns=["name"])

    poll_sizes = (700, 10_000)

    def expected(self) -> list[Any]:
        return [Row(name=f"n{n}") for n in (*range(3000), *range(5))]


class TestParquetInParts(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        table = pa.table({"id": range(200)})
        pq.write_table(table, directory / "a.parquet", row_group_size=30)
        return (
            FileSource.for_bulk_file_format(ParquetFormat(), directory / "a.parquet")
            .with_split_size(300)
            .build()
        )

    poll_sizes = (7, 1000)

    def expected(self) -> list[Any]:
        return [Row(id=n) for n in range(200)]


class TestPartitionedParquet(SourceConformance):
    def make_source(self, directory: Path) -> FileSource:
        for country, hour in (("DE", "3"), ("a%2Fb", "__HIVE_DEFAULT_PARTITION__")):
            place = directory / f"country={country}" / f"hour={hour}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"id": range(5)}), place / "x.parquet")
            pq.write_table(pa.table({"id": [99]}), place / ".hidden.parquet")
        kinds = pa.schema([("country", pa.string()), ("hour", pa.int32())])
        return FileSource.parquet(directory, partitions=kinds)

    def expected(self) -> list[Any]:
        first = [Row(id=n, country="DE", hour=3) for n in range(5)]
        return first + [Row(id=n, country="a/b", hour=None) for n in range(5)]


def drain(reader: SplitReader) -> tuple[list[Any], list[Diverted]]:
    rows, bad = [], []
    while True:
        try:
            batch = reader.poll(1000)
        except EndOfSplit:
            return rows, bad
        rows += [] if batch is None else batch.to_rows()
        bad += reader.take_diverted()


def read(source: FileSource) -> tuple[list[Any], list[Diverted]]:
    rows, bad = [], []
    for split in source.create_enumerator(1).discover():
        found = drain(source.open_split(split, None, ManualClock(0)))
        rows += found[0]
        bad += found[1]
    return rows, bad


@given(
    content=st.text(alphabet="ab\n", max_size=40).map(str.encode),
    cuts=st.lists(st.integers(1, 39), max_size=4, unique=True),
    block=st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_files_parts_cover_a_file_wherever_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cuts: list[int], block: int
) -> None:
    path = tmp_path_factory.mktemp("parts") / "f"
    path.write_bytes(content)
    edges = [0, *sorted(cut for cut in cuts if cut < len(content))]
    ends = [*edges[1:], None]
    bad = BadRecords(ErrorPolicy(), "f", "f", "byte")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_BYTES", block)
        parts = [
            drain(StreamFormat.text_line_format().open_range(FileRange(str(path), start, end), None, bad))[0]
            for start, end in zip(edges, ends, strict=True)
        ]
    expected = content.decode().removesuffix("\n").split("\n") if content else []
    assert [line for part in parts for line in part] == expected


CSV_TYPES = pa.schema(
    [("d", pa.date32()), ("t", pa.timestamp("ms")), ("x", pa.decimal128(10, 2)), ("l", pa.list_(pa.int64()))]
)


def test_files_csv_types(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("# made by hand\n2020-01-02|2020-01-02 03:04:05.678|1.50|1;2\n||NA|\n|||''\n")
    source = FileSource.csv(
        tmp_path, schema=CSV_TYPES, delimiter="|", comments=True, null_values=("", "NA"), quote="'"
    )
    (first, second, third), _ = read(source)
    when = dt.datetime.fromisoformat("2020-01-02T03:04:05.678")
    assert first == Row(d=dt.date(2020, 1, 2), t=when, x=Decimal("1.50"), l=[1, 2])
    assert second == Row(d=None, t=None, x=None, l=None)
    assert third == Row(d=None, t=None, x=None, l=[])


def test_files_json_types(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"d":"2020-01-02","t":"2020-01-02T03:04:05.678","x":"1.50","l":[1,2]}\n')
    (row,), _ = read(FileSource.json_lines(tmp_path, schema=CSV_TYPES))
    when = dt.datetime.fromisoformat("2020-01-02T03:04:05.678")
    assert row == Row(d=dt.date(2020, 1, 2), t=when, x=Decimal("1.50"), l=[1, 2])


def test_files_schema_may_be_a_row_type(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1,a\n")
    kind = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    assert read(FileSource.csv(tmp_path, schema=kind))[0] == [Row(id=1, name="a")]


CSV_BAD = '1,a\nx,b\n3,c\n4,d,e\n5,"open\n6,f\n'
JSON_BAD = '{"id":1}\n{"id":"x"}\n{"id":3}\n[1]\n{"id":\n{"id":6}\n'


@pytest.mark.parametrize(("make", "content"), [(FileSource.csv, CSV_BAD), (FileSource.json_lines, JSON_BAD)])
def test_files_bad_lines_fail_skip_or_divert(tmp_path: Path, make: Any, content: str) -> None:
    (tmp_path / "f").write_text(content)
    with pytest.raises(ConnectorError, match=r"f', byte \d+: .*The record is "):
        read(make(tmp_path, schema=SCHEMA))
    rows, bad = read(make(tmp_path, schema=SCHEMA, on_error="divert", divert_to="bad"))
    assert [row["id"] for row in rows] == [1, 3, 6]
    lines = content.encode().split(b"\n")
    assert [record.raw for record in bad] == [lines[1], lines[3], lines[4]]
    ends = [len(b"\n".join(lines[:count])) + 1 for count in (1, 3, 4)]
    assert [record.position for record in bad] == ends
    assert "Row #" not in "".join(record.reason for record in bad)
    assert make(tmp_path, schema=SCHEMA, on_error="divert", divert_to="bad").diverts_to == "bad"


def test_files_a_bad_line_is_bad_at_any_poll_size(tmp_path: Path) -> None:
    """Lines do not lean on those that happen to be read together with them."""
    (tmp_path / "f").write_text(JSON_BAD)
    for size in (1, 2, 3, 4):
        source = FileSource.json_lines(tmp_path, schema=SCHEMA, on_error="skip")
        (split,) = source.create_enumerator(1).discover()
        reader = source.open_split(split, None, ManualClock(0))
        ids = []
        while True:
            try:
                batch = reader.poll(size)
            except EndOfSplit:
                break
            ids += [] if batch is None else [row["id"] for row in batch.to_rows()]
        assert ids == [1, 3, 6]


def test_files_csv_header_without_the_column(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("id,nam\n1,a\n")
    with pytest.raises(ConnectorError, match="has no column name in its first line; it has id, nam"):
        read(FileSource.csv(tmp_path, schema=SCHEMA, header=True))


def test_files_csv_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="one ASCII character"):
        CsvDialect(delimiter="||")
    with pytest.raises(ConfigError, match="must be quoted"):
        CsvDialect(multiline=True, quote=None)


def test_files_json_files_are_split_and_packed_ones_are_not() -> None:
    assert JsonLinesFormat(SCHEMA).can_split("a.json") and not JsonLinesFormat(SCHEMA).can_split("a.json.gz")
    assert not CsvFormat(SCHEMA, CsvDialect(multiline=True)).can_split("a.csv")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "2024-01/a.txt",
        "2024-01/b.csv",
        "2024-02/deep/c.txt",
        "2025-01/d.txt",
        "_x/e.txt",
        "2024-01/.f",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("2024-*", "2024-01/a.txt 2024-01/b.csv 2024-02/deep/c.txt"),
        ("*/*.txt", "2024-01/a.txt 2025-01/d.txt"),
        ("**/*.txt", "2024-01/a.txt 2024-02/deep/c.txt 2025-01/d.txt"),
        ("202[!4]-0?/d*", "2025-01/d.txt"),
        ("2024-01/[ab].*", "2024-01/a.txt 2024-01/b.csv"),
    ],
)
@pytest.mark.parametrize("remote", [False, True])
def test_files_globs(tree: Path, pattern: str, names: str, remote: bool) -> None:
    base = str(tree)
    if remote:
        import fsspec

        base = f"memory://globs-{tree.name}"
        fsspec.filesystem("memory").put(str(tree), base, recursive=True)
    assert read(FileSource.text(f"{base}/{pattern}"))[0] == names.split()


def test_files_globs_that_match_nothing(tree: Path) -> None:
    with pytest.raises(ConnectorError, match="no file matches"):
        read(FileSource.text(tree / "*.gz"))
    watched = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tree / "*.gz")
    assert list(watched.monitor_continuously(10).build().create_enumerator(1).discover()) == []


def test_files_missing_path_is_found_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="there is no file or directory"):
        FileSource.text(tmp_path / "nowhere" / "*.txt").check()


def test_files_partition_columns_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "k=x").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "k=x" / "f.parquet")
    wanted = FileSource.parquet(tmp_path, columns=["k", "id"], partitions=["k"])
    assert read(wanted)[0] == [Row(id=1, k="x")]
    with pytest.raises(ConnectorError, match="is not below a directory other="):
        read(FileSource.parquet(tmp_path, partitions=["other"]))
    with pytest.raises(ConnectorError, match="k=x is no int64"):
        read(FileSource.parquet(tmp_path, partitions=pa.schema([("k", pa.int64())])))
    with pytest.raises(ConnectorError, match="give the source a schema"):
        (tmp_path / "k=x" / "f.parquet").write_text("{}")
        read(FileSource.json_lines(tmp_path, partitions=["k"]))
