"""Values in files: numbers out of range, decimals, nulls, bytes and text, nested values, times.

What PyFlink 2.3.0 gave is said at each test that could be compared; its readers and writers are Java's.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from files_kit import Play, read

from penstock.common import Row, Types
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.datastream.connectors.file_system import FileSink, FileSource

KINDS = ["parquet", "orc", "csv"]
ROUNDED = {"1.5": 2, "2.5": 3, "-1.5": -2, "-0.5": -1, "0.49": 0, "99.4": 99}
"""PyFlink gives these for a DECIMAL(2, 0) column, reading CSV and writing each of the three."""
DECIMAL = pa.schema([("d", pa.decimal128(2, 0))])


def sink_of(kind: str, place: Path, schema: Any, **more: Any) -> FileSink:
    made: FileSink = getattr(FileSink, kind)(place, schema, **more)
    return made


def back(kind: str, place: Path, schema: pa.Schema) -> list[Any]:
    return read(FileSource.csv(place, schema=schema) if kind == "csv" else getattr(FileSource, kind)(place))


def written(kind: str, place: Path, schema: pa.Schema, batch: Batch, **more: Any) -> list[Any]:
    Play(sink_of(kind, place, schema, **more)).epoch(1, batch)
    return back(kind, place, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_decimals_are_rounded_as_flink_rounds(tmp_path: Path, kind: str) -> None:
    values = [Decimal(text) for text in ROUNDED]
    expected = [Row(d=Decimal(number)) for number in ROUNDED.values()]
    rows = Batch.of_rows([Row(d=value) for value in values])
    assert written(kind, tmp_path / "rows", DECIMAL, rows) == expected
    fine = pa.record_batch({"d": pa.array(values, pa.decimal128(10, 2))})
    assert written(kind, tmp_path / "columns", DECIMAL, Batch(columns=fine)) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partitioned", [False, True])
def test_decimals_are_not_rounded_if_that_is_refused(tmp_path: Path, kind: str, partitioned: bool) -> None:
    schema = pa.schema([("d", pa.decimal128(2, 0)), ("p", pa.string())])
    more: dict[str, Any] = {"partition_by": ["p"]} if partitioned else {}
    play = Play(sink_of(kind, tmp_path, schema, strict_decimals=True, **more))
    for batch in (
        Batch.of_rows([Row(d=Decimal("1.5"), p="x")]),
        Batch(columns=pa.record_batch({"d": pa.array([Decimal("1.5")]), "p": ["x"]})),
    ):
        with pytest.raises(ConnectorError, match="column 'd' of type decimal128"):
            play.writer.write(batch)
    play.writer.write(Batch.of_rows([Row(d=Decimal("1.0"), p="x")]))


@pytest.mark.parametrize("kind", KINDS)
def test_decimals_with_too_many_digits_are_an_error(tmp_path: Path, kind: str) -> None:
    """PyFlink writes NULL without a word."""
    play = Play(sink_of(kind, tmp_path, DECIMAL))
    for wrong in (Decimal(999), Decimal("99.5"), Decimal("NaN")):
        with pytest.raises(ConnectorError, match="column 'd' of type decimal128"):
            play.writer.write(Batch.of_rows([Row(d=wrong)]))


def test_decimals_are_rounded_when_csv_is_read(tmp_path: Path) -> None:
    lines = "".join(f"{text}\n" for text in ROUNDED)
    (tmp_path / "a.csv").write_text(lines)
    assert [int(row.d) for row in read(FileSource.csv(tmp_path, schema=DECIMAL))] == list(ROUNDED.values())
    with pytest.raises(ConnectorError, match=r"a\.csv.*1\.5"):
        read(FileSource.csv(tmp_path, schema=DECIMAL, strict_decimals=True))
    (tmp_path / "a.csv").write_text("1.5\nx1\n")
    with pytest.raises(ConnectorError, match=r"a\.csv.*byte 4.*'x1'"):
        read(FileSource.csv(tmp_path, schema=DECIMAL))


LIMITS = {pa.int8(): 2**7, pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63}


@pytest.mark.parametrize("kind", [*KINDS, "json_lines"])
@pytest.mark.parametrize("column", list(LIMITS), ids=str)
def test_whole_numbers_that_do_not_fit_are_an_error(tmp_path: Path, kind: str, column: Any) -> None:
    """PyFlink: an OverflowError for what a function gives, NumberFormatException for what CSV has."""
    limit = LIMITS[column]
    schema = pa.schema([("n", column), ("s", pa.string())])
    play = Play(sink_of(kind, tmp_path / "out", schema))
    for wrong in (limit, -limit - 1, 1.5, float("nan")):
        with pytest.raises(ConnectorError, match=f"column 'n' of type {column}"):
            play.writer.write(Batch.of_rows([Row(n=0, s="a"), Row(n=wrong, s="a")]))
    good = [Row(n=limit - 1, s="a"), Row(n=None, s=None), Row(n=-limit, s="b")]
    place = tmp_path / "good"
    Play(sink_of(kind, place, schema)).epoch(1, Batch.of_rows(good))
    if kind == "json_lines":
        assert read(FileSource.json_lines(place, schema=schema)) == good
    else:
        assert back(kind, place, schema) == good


@pytest.mark.parametrize("number", ["128", "-129", "1.5", "x"])
def test_whole_numbers_in_csv_that_do_not_fit_name_file_and_value(tmp_path: Path, number: str) -> None:
    (tmp_path / "a.csv").write_text(f"1,a\n{number},b\n")
    schema = pa.schema([("n", pa.int8()), ("s", pa.string())])
    with pytest.raises(ConnectorError, match=rf"a\.csv.*{number}"):
        read(FileSource.csv(tmp_path, schema=schema))


NESTED = Types.ROW_NAMED(
    ["m", "r", "l", "d", "y", "s", "t"],
    [
        Types.MAP(Types.STRING(), Types.INT()),
        Types.ROW_NAMED(["x", "d"], [Types.INT(), Types.BIG_DEC()]),
        Types.LIST(Types.ROW_NAMED(["z"], [Types.STRING()])),
        Types.BIG_DEC(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.STRING(),
        Types.SQL_TIMESTAMP(),
    ],
)
MOMENT = dt.datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=dt.UTC).replace(tzinfo=None)
FULL = Row(
    m={"k": 1}, r=Row(x=1, d=Decimal("2.5")), l=[Row(z="😀"), None], d=Decimal("1.25"), y=b"\x00\xff", s="é",
    t=MOMENT,
)  # fmt: skip
AS_COLUMNS = Row(
    m=[("k", 1)], r={"x": 1, "d": Decimal("2.5")}, l=[{"z": "😀"}, None], d=Decimal("1.25"), y=b"\x00\xff",
    s="é", t=MOMENT,
)  # fmt: skip
"""What columns give back for it."""


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_nested_values_bytes_unicode_and_times(tmp_path: Path, kind: str) -> None:
    """PyFlink writes maps, arrays and rows within rows as well, and reads none of them back."""
    nothing = Row(**dict.fromkeys(NESTED.get_field_names()))
    Play(sink_of(kind, tmp_path, NESTED)).epoch(1, Batch.of_rows([FULL, nothing]))
    assert back(kind, tmp_path, pa.schema([])) == [AS_COLUMNS, nothing]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_times_with_a_zone_are_moments(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    moment = dt.datetime(2024, 1, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    (row,) = written(kind, tmp_path, schema, Batch.of_rows([Row(t=moment)]))
    assert row.t == moment


def test_rows_within_rows_are_taken_by_name_or_by_place(tmp_path: Path) -> None:
    schema = pa.schema([("r", pa.struct([("x", pa.int32()), ("y", pa.string())]))])
    given = [Row(r=Row(y="b", x=1)), Row(r=Row(1, "b")), Row(r=(1, "b")), Row(r={"y": "b", "x": 1})]
    rows = written("parquet", tmp_path / "a", schema, Batch.of_rows(given))
    assert rows == [Row(r={"x": 1, "y": "b"})] * 4
    play = Play(FileSink.parquet(tmp_path / "b", schema))
    with pytest.raises(ConnectorError, match=r"column 'r'.*1 values for 2 fields \(x, y\)"):
        play.writer.write(Batch.of_rows([Row(r=Row(1))]))
