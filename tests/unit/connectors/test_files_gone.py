"""Files that go or change between a snapshot and the restore: never passed over without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.lake.delta.source import DeltaSource
from penstock.connectors.source import EndOfSplit, Source, Split, SplitReader
from penstock.core.clock import SystemClock
from penstock.core.errors import ConnectorError, PositionGoneError


def lines(path: Path, on_missing: str = "error") -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
    return builder.on_missing(on_missing).build()


def halfway(source: Source) -> tuple[Split, Any]:
    """A split and a position in it, as a snapshot holds them."""
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, SystemClock())
    rows = 0
    while rows < 2:
        rows += len(reader.poll(2 - rows) or ())
    position = reader.position()
    reader.close()
    return split, position


def reopened(source: Source, split: Split, position: Any) -> SplitReader:
    return source.open_split(split, position, SystemClock())


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("one\ntwo\nthree\nfour\n")
    return path


def test_a_file_that_is_gone(text: Path, caplog: pytest.LogCaptureFixture) -> None:
    split, position = halfway(lines(text))
    text.unlink()
    with pytest.raises(PositionGoneError, match=r"has read it up to 8\. Put the file back.*on_missing"):
        reopened(lines(text), split, position)
    with pytest.raises(ConnectorError, match="every machine"):
        reopened(lines(text), split, None)
    for at in (position, None):
        reader = reopened(lines(text, "skip"), split, at)
        with pytest.raises(EndOfSplit):
            reader.poll(1)
        assert reader.position() == at
        reader.close()
    assert caplog.text.count("DATA LOSS") == 2 and "read nothing of it" in caplog.text


def test_a_file_that_was_cut_off(text: Path) -> None:
    split, position = halfway(lines(text))
    text.write_text("one\n")
    with pytest.raises(PositionGoneError, match="byte 8 but has only 4"):
        reopened(lines(text), split, position)


def test_a_file_that_was_written_anew(text: Path) -> None:
    split, position = halfway(lines(text))
    text.write_text("a longer line than before\nand another\n")
    with pytest.raises(PositionGoneError, match="byte 8, where a line began, and now none does"):
        reopened(lines(text), split, position)


def test_a_file_as_it_was(text: Path) -> None:
    split, position = halfway(lines(text))
    assert (reopened(lines(text), split, position).poll(9) or []).to_rows() == ["three", "four"]  # type: ignore[union-attr]
    text.write_text("one\ntwo")
    split, position = halfway(lines(text))
    with pytest.raises(EndOfSplit):
        reopened(lines(text), split, position).poll(1)


def test_a_parquet_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    source = FileSource.parquet(path)
    split, position = halfway(source)
    path.unlink()
    with pytest.raises(PositionGoneError, match="is gone"):
        reopened(source, split, position)


def test_a_version_that_was_vacuumed(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"n": [1, 2, 3]}))
    source = DeltaSource(tmp_path / "t")
    split, position = halfway(source)
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"n": [9]}), mode="overwrite")
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    assert table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(PositionGoneError, match="VACUUM removes files of older versions"):
        reopened(source, split, position)
    lenient = DeltaSource(tmp_path / "t", on_missing="skip")
    with pytest.raises(EndOfSplit):
        reopened(lenient, split, position).poll(1)
