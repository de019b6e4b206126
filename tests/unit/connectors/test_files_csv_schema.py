"""CSV by PyFlink's ``CsvSchema``, next to what PyFlink 2.3.0 read and wrote (Java 17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from files_kit import Play, read, visible_files

from penstock.common import Row, Types
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowSerializationSchema,
    CsvSchema,
)


def two() -> Any:
    return CsvSchema.builder().add_string_column("a").add_string_column("b")


def three() -> Any:
    return (
        CsvSchema.builder().add_string_column("a").add_number_column("n", Types.INT()).add_string_column("b")
    )


def arrays() -> Any:
    return CsvSchema.builder().add_array_column("a").add_array_column("b", "#", Types.INT())


def reading(place: Path, schema: Any, text: str) -> list[tuple[Any, ...]]:
    (place / "in.csv").write_text(text, newline="")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema.build()), place / "in.csv")
    return [tuple(row) for row in read(source.build())]


def writing(place: Path, schema: Any, rows: list[Row]) -> bytes:
    sink = FileSink.for_bulk_format(place, CsvBulkWriters.for_schema(schema.build())).build()
    Play(sink).epoch(1, Batch.of_rows(rows))
    (file,) = visible_files(place)
    return file.read_bytes()


READ = {
    "a header is passed over, the place decides": (two().set_use_header(), "b,a\nx,1\n", [("x", "1")]),
    "a header of other names": (two().set_use_header(), "p,q\nx,1\n", [("x", "1")]),
    "a strict header": (two().set_use_header().set_strict_headers(), "a,b\nx,1\n", [("x", "1")]),
    "a first line that is skipped": (two().set_skip_first_data_row(), "b,a\nx,1\n", [("x", "1")]),
    "empty text is text": (two(), ',""\n', [("", "")]),
    "a literal is null in quotes and out of them": (
        two().set_null_value("NULL"),
        'NULL,"NULL"\n,""\n',
        [(None, None), ("", "")],
    ),
    "comments": (
        two().set_allow_comments(),
        '#c,d\nx,1\n  # y,2\n"#z",3\n',
        [("x", "1"), ("#z", "3")],
    ),
    "no comments": (two(), "#c,d\n", [("#c", "d")]),
    "a separator for each array column": (arrays(), "x;y,1#2\n,\n", [(["x", "y"], [1, 2]), ([], [])]),
    "a separator for all has no effect": (
        arrays().set_array_element_separator("/").disable_array_element_separator(),
        "x;y/z,1#2\n",
        [(["x", "y/z"], [1, 2])],
    ),
    "another quote, and an escape": (
        two().set_quote_char("'").set_escape_char("\\"),
        "'x,\\'y',a\\,b\n'it''s',2\n",
        [("x,'y", "a,b"), ("it's", "2")],
    ),
    "no quotes": (two().disable_quote_char(), '"x,"y"\n', [('"x', '"y"')]),
    "a line feed in quotes": (two(), '"x\ny",2\n', [("x\ny", "2")]),
    "more than ASCII": (two(), "é,😀\n", [("é", "😀")]),
    "spaces around a number": (three(), "x, 7 ,y\n", [("x", 7, "y")]),
}


@pytest.mark.parametrize("what", READ)
def test_files_are_read_as_flink_reads_them(tmp_path: Path, what: str) -> None:
    schema, text, expected = READ[what]
    assert reading(tmp_path, schema, text) == expected


WRONG = {
    "too many cells": (two(), "x,1\nx,1,2\n", r"in\.csv', byte 4.*got 3.*in line 2"),
    "too few cells": (two(), "x,1\nx\n", r"in\.csv', byte 4.*got 1.*in line 2"),
    "no number": (three(), "a,1,b\na,x,b\n", r"in\.csv', byte 6.*column 'n'.*'x', in line 2"),
    "too large a number": (three(), "a,2147483648,b\n", r"in\.csv', byte 0.*column 'n'.*in line 1"),
    "a strict header of another order": (
        two().set_use_header().set_strict_headers(),
        "b,a\nx,1\n",
        r"in\.csv' has the columns b, a .* the schema has a, b",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_flink_refuses_names_file_line_and_column(tmp_path: Path, what: str) -> None:
    schema, text, message = WRONG[what]
    with pytest.raises(ConnectorError, match=message):
        reading(tmp_path, schema, text)


ROWS = [Row('say "hi", x', 2, ""), Row("it's\\", None, "NULL"), Row("#", 3, None)]
WRITTEN = {
    "plain": (three(), b'"say ""hi"", x",2,""\n"it\'s\\",,"NULL"\n"#",3,\n'),
    "another quote": (
        three().set_quote_char("'"),
        b"'say \"hi\", x',2,''\n'it''s\\',,'NULL'\n'#',3,\n",
    ),
    "an escape": (
        three().set_escape_char("\\"),
        b'"say ""hi"", x",2,""\n"it\'s\\\\",,"NULL"\n"#",3,\n',
    ),
    "a literal for null": (
        three().set_null_value("-"),
        b'"say ""hi"", x",2,""\n"it\'s\\",-,"NULL"\n"#",3,-\n',
    ),
    "another line end and a header": (
        three().set_line_separator("\r\n").set_use_header(),
        b'"a","n","b"\r\n"say ""hi"", x",2,""\r\n"it\'s\\",,"NULL"\r\n"#",3,\r\n',
    ),
    "no quotes but an escape": (
        three().disable_quote_char().set_escape_char("\\"),
        b'say "hi"\\, x,2,\nit\'s\\\\,,NULL\n#,3,\n',
    ),
}
"""PyFlink has the same values and leaves out the quotes of short text without special characters."""


@pytest.mark.parametrize("what", WRITTEN)
def test_files_are_written_with_quote_escape_and_null(tmp_path: Path, what: str) -> None:
    schema, expected = WRITTEN[what]
    assert writing(tmp_path / "out", schema, ROWS) == expected
    back = reading(tmp_path, schema, expected.decode())
    assert [row[:2] for row in back] == [tuple(row)[:2] for row in ROWS]


def test_arrays_are_written_with_their_separators(tmp_path: Path) -> None:
    """PyFlink: ``x;y,"1#2"``."""
    assert writing(tmp_path, arrays(), [Row(["x", "y"], [1, 2])]) == b'"x;y","1#2"\n'


def test_what_cannot_be_written_without_quotes_is_an_error(tmp_path: Path) -> None:
    """PyFlink writes ``a,b,1,`` without a word, which reads as four columns."""
    with pytest.raises(ConnectorError, match=r"column 'a' holds 'a,b'.*without quotes"):
        writing(tmp_path, three().disable_quote_char(), [Row("a,b", 1, "")])


def test_a_null_in_the_only_column_is_not_lost(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("n")
    text = writing(tmp_path / "out", schema, [Row(1), Row(None), Row(2)])
    assert reading(tmp_path, schema, text.decode()) == [(1,), (None,), (2,)]


def test_settings_that_cannot_be() -> None:
    for wrong in (lambda: two().set_quote_char("''"), lambda: two().set_line_separator("|")):
        with pytest.raises(ConfigError):
            wrong()


def test_rows_of_csv_as_messages_are_escaped_as_flink_escapes() -> None:
    """PyFlink: the same bytes for each."""
    builder = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING(), Types.INT(), Types.STRING()]))
    row = Row('say "hi", x', 1, "")
    assert builder.build().serialize(row) == b'"say ""hi"", x",1,\n'
    assert builder.set_escape_character("\\").build().serialize(Row('say "hi", x\\y', 1, "")) == (
        b'"say ""hi"", x\\\\y",1,\n'
    )
    quoted = builder.set_quote_character("'").build()
    assert quoted.serialize(Row('it\'s, "x"', 1, "")) == b"'it''s, \"x\"',1,\n"
