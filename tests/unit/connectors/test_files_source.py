"""Reading files: lines, Parquet, directories that grow."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files import lines as lines_module
from penstock.connectors.source import EndOfSplit
from penstock.core.clock import ManualClock
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream.connectors.file_system import FileSource, ParquetFormat, StreamFormat


def lines_of(*paths, charset="UTF-8"):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *paths)


def only_reader(source, position=None):
    (split,) = source.create_enumerator(1).discover()
    return source.open_split(split, position, ManualClock())


def drain(reader, size=1000):
    batches = []
    try:
        while True:
            if (batch := reader.poll(size)) is not None:
                batches.append(batch)
    except EndOfSplit:
        reader.close()
        return batches


@settings(max_examples=60, deadline=None)
@given(
    content=st.text(alphabet="ab\r\nü ", max_size=60).map(str.encode),
    block=st.integers(1, 9),
    size=st.integers(1, 5),
)
def test_lines_at_any_block_and_poll_size(tmp_path_factory, content, block, size):
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(content)
    expected = [line.removesuffix(b"\r").decode() for line in content.split(b"\n")]
    if content.endswith(b"\n") or not content:
        expected.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_BYTES", block)
        reader = only_reader(lines_of(path).build())
        seen: list[str] = []
        try:
            while True:
                seen += reader.poll(size).rows
                rest = drain(only_reader(lines_of(path).build(), reader.position()))
                assert seen + [row for batch in rest for row in batch.rows] == expected
        except EndOfSplit:
            reader.close()
        assert seen == expected
        assert reader.position() == len(content)


def test_charsets(tmp_path):
    (tmp_path / "latin").write_bytes("für\nélan".encode("latin-1"))
    batches = drain(only_reader(lines_of(tmp_path / "latin", charset="ISO-8859-1").build()))
    assert [row for batch in batches for row in batch.rows] == ["für", "élan"]
    with pytest.raises(ConnectorError, match=r"byte 0: this is not UTF-8 text"):
        drain(only_reader(lines_of(tmp_path / "latin").build()))
    with pytest.raises(ConfigError, match="newline is"):
        StreamFormat.text_line_format("UTF-16")
    with pytest.raises(ConfigError, match="no charset"):
        StreamFormat.text_line_format("martian")


def test_paths_may_be_urls_relative_or_nested(tmp_path, monkeypatch):
    (tmp_path / "a dir" / "deep").mkdir(parents=True)
    (tmp_path / "a dir" / "deep" / "x").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    for path in [
        "a dir",
        f"file://{tmp_path}/a%20dir",
        f"file:{tmp_path}/a%20dir",
        tmp_path / "a dir" / "deep" / "x",
    ]:
        (split,) = lines_of(path).build().create_enumerator(1).discover()
        assert split.id == str(tmp_path / "a dir" / "deep" / "x")


def test_missing_paths_are_clear_errors(tmp_path):
    with pytest.raises(ConnectorError, match="no file or directory"):
        list(lines_of(tmp_path / "nowhere").build().create_enumerator(1).discover())
    with pytest.raises(ConnectorError, match="no file or directory"):
        list(lines_of("memory://nowhere/at/all").build().create_enumerator(1).discover())
    with pytest.raises(ConnectorError, match="nosuchscheme"):
        list(lines_of("nosuchscheme://bucket").build().create_enumerator(1).discover())
    with pytest.raises(ConfigError, match="at least one path"):
        lines_of().build()
    path = tmp_path / "gone"
    path.write_text("x")
    source = lines_of(path).build()
    (split,) = source.create_enumerator(1).discover()
    path.unlink()
    with pytest.raises(ConnectorError, match="gone"):
        source.open_split(split, None, ManualClock())


def test_a_file_that_shrank_is_not_taken_for_read(tmp_path):
    (tmp_path / "t").write_text("ab\n")
    with pytest.raises(ConnectorError, match="up to byte 9 but has only 3"):
        only_reader(lines_of(tmp_path).build(), position=9)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t")
    with pytest.raises(ConnectorError, match="up to row 2 but has only 1"):
        only_reader(FileSource.parquet(tmp_path), position=2)


def test_hidden_means_below_the_given_path(tmp_path):
    import fsspec

    (tmp_path / "_base").mkdir()
    (tmp_path / "_base" / "x").touch()
    with fsspec.open("memory://bucket/_base/x", "wb") as stream:
        stream.write(b"x")
    for base in (f"{tmp_path}/_base", "memory://bucket/_base/"):
        assert [s.id for s in lines_of(base).build().create_enumerator(1).discover()] == [
            f"{base.rstrip('/')}/x"
        ]


def test_watching_a_directory(tmp_path):
    for name in ("b", ".hidden", "_SUCCESS"):
        (tmp_path / name).touch()
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "half").touch()
    source = lines_of(tmp_path).monitor_continuously(Duration.of_seconds(2)).build()
    assert source.discovery_interval_ms == 2000 and not source.bounded and source.read_in_order
    enumerator = source.create_enumerator(1)
    assert [split.id for split in enumerator.discover()] == [str(tmp_path / "b")]
    (tmp_path / "a").touch()
    assert [split.id for split in enumerator.discover()] == [str(tmp_path / "a")]
    (tmp_path / "c").touch()
    older = sorted(str(tmp_path / name) for name in "ab")
    for state in (enumerator.snapshot(), older):
        restored = source.create_enumerator(5)
        restored.restore(state)
        assert [split.id for split in restored.discover()] == [str(tmp_path / "c")]


def test_builder_switches_between_static_and_watching(tmp_path):
    builder = lines_of(tmp_path).monitor_continuously(dt.timedelta(seconds=1))
    assert builder.build().discovery_interval_ms == 1000
    static = builder.process_static_file_set().build()
    assert static.bounded and static.discovery_interval_ms is None
    with pytest.raises(ConfigError, match="interval"):
        builder.monitor_continuously(0)


def test_parquet_columns_filter_and_pruning(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(100), "b": range(100, 200)}), path, row_group_size=10)
    source = FileSource.parquet(path, columns=["b"], filter=pc.field("a") >= 85)
    reader = only_reader(source)
    first = reader.poll(1000)
    assert first.columns.schema.names == ["b"] and first.columns.column(0).to_pylist() == list(
        range(185, 190)
    )
    assert reader.position() == 90
    assert drain(reader)[0].columns.column(0).to_pylist() == list(range(190, 200))


def test_parquet_columns_come_in_the_order_asked_for(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "f.parquet")
    (batch,) = drain(only_reader(FileSource.parquet(tmp_path, columns=["c", "a"])))
    assert batch.columns.to_pydict() == {"c": [3], "a": [1]}


def test_parquet_filter_that_matches_nothing_ends(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": [1, 9] * 50}), path, row_group_size=10)
    assert drain(only_reader(FileSource.parquet(path, filter=pc.field("a") == 5)), size=3) == []


def test_parquet_skips_row_groups_on_resume(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(1000)}), path, row_group_size=100)
    reader = only_reader(FileSource.parquet(path), position=250)
    assert reader.poll(10).columns.column(0).to_pylist() == list(range(250, 260))
    assert reader.position() == 260


def test_parquet_keeps_empty_files_and_large_polls_apart(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "e.parquet")
    assert drain(only_reader(FileSource.parquet(tmp_path))) == []


def test_broken_parquet_and_unknown_columns_are_clear(tmp_path):
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ConnectorError, match="not a complete Parquet file"):
        only_reader(FileSource.parquet(tmp_path))
    (tmp_path / "half.parquet").unlink()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    with pytest.raises(ConnectorError, match="no column z; it has a"):
        only_reader(FileSource.for_bulk_file_format(ParquetFormat(["z"]), tmp_path).build())


def test_parquet_through_fsspec(tmp_path):
    import fsspec

    with fsspec.open("memory://remote-parquet/f.parquet", "wb") as stream:
        pq.write_table(pa.table({"a": range(30)}), stream, row_group_size=7)
    reader = only_reader(
        FileSource.parquet("memory://remote-parquet", filter=pc.field("a") > 12), position=20
    )
    assert [v for b in drain(reader) for v in b.columns.column(0).to_pylist()] == list(range(20, 30))
