"""Rows as Avro records."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Row, Types
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
FIELDS: list[tuple[str, Any, Any]] = [
    ("number", "long", Types.LONG()),
    ("maybe", ["null", "string"], Types.STRING()),
    ("share", "double", Types.DOUBLE()),
    ("flag", "boolean", Types.BOOLEAN()),
    ("raw", "bytes", Types.PRIMITIVE_ARRAY(Types.BYTE())),
    ("day", {"type": "int", "logicalType": "date"}, Types.SQL_DATE()),
    ("moment", {"type": "long", "logicalType": "timestamp-micros"}, Types.SQL_TIMESTAMP()),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Types.BIG_DEC()),
    ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, Types.STRING()),
    ("points", {"type": "array", "items": POINT}, Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.INT()]))),
    (
        "by_name",
        {"type": "map", "values": "Point"},
        Types.MAP(Types.STRING(), Types.ROW_NAMED(["x"], [Types.INT()])),
    ),
    ("any", ["null", "int", "string"], Types.PICKLED_BYTE_ARRAY()),
]
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Thing",
        "namespace": "test",
        "fields": [{"name": name, "type": kind} for name, kind, _ in FIELDS],
    }
)
EPOCH = dt.datetime.fromisoformat("1970-01-01T00:00:00")
POINTS = st.builds(lambda x: Row(x=x), st.integers(-(2**31), 2**31 - 1))
ROWS = st.builds(
    Row,
    number=st.integers(-(2**63), 2**63 - 1),
    maybe=st.none() | st.text(),
    share=st.floats(allow_nan=False),
    flag=st.booleans(),
    raw=st.binary(),
    day=st.dates(),
    moment=st.integers(-(10**15), 10**15).map(lambda micros: EPOCH + dt.timedelta(microseconds=micros)),
    price=st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    colour=st.sampled_from(["RED", "BLUE"]),
    points=st.lists(POINTS, max_size=3),
    by_name=st.dictionaries(st.text(), POINTS, max_size=3),
    any=st.none() | st.integers(0, 5) | st.text(),
)


def reader(**more: Any) -> AvroRowDeserializationSchema:
    return pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=SCHEMA, **more)))


def writer() -> AvroRowSerializationSchema:
    return pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=SCHEMA)))


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_what_is_written_is_read(row: Row) -> None:
    data = writer().serialize(row)
    assert reader().deserialize(data) == row
    assert reader(confluent_header=True).deserialize(b"\0\0\0\0\7" + data) == row


def test_the_type_of_the_rows_is_the_schemas() -> None:
    expected = Types.ROW_NAMED([name for name, _, _ in FIELDS], [kind for _, _, kind in FIELDS])
    assert reader().get_produced_type() == expected


RECURSIVE = '{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}'
SMALL = json.dumps({"type": "record", "name": "S", "fields": [{"name": "s", "type": "string"}]})


@pytest.mark.parametrize("data", [b"", b"\x06ab", b"\x04ab!", b"\x02\xff", b"\xff" * 12])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(ConnectorError, match="cannot read .* as Avro of RowTypeInfo"):
        AvroRowDeserializationSchema(avro_schema_string=SMALL).deserialize(data)


def test_a_missing_header_is_refused() -> None:
    small = AvroRowDeserializationSchema(avro_schema_string=SMALL, confluent_header=True)
    assert small.deserialize(b"\0\0\0\0\1\x04ab") == Row(s="ab")
    with pytest.raises(ConnectorError, match="Confluent's header"):
        small.deserialize(b"\x0aabcdef")


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConnectorError, match="cannot write"):
        AvroRowSerializationSchema(avro_schema_string=SMALL).serialize(Row(s=5))
    with pytest.raises(ConnectorError, match="cannot write"):
        AvroRowSerializationSchema(avro_schema_string=SMALL).serialize(Row(a="a", b="b"))


@pytest.mark.parametrize(
    ("given_", "hint"),
    [
        ({}, "give avro_schema_string"),
        ({"record_class": "X"}, "no Java"),
        ({"avro_schema_string": "{"}, "not JSON"),
        ({"avro_schema_string": '{"type": "nothing"}'}, "cannot be used"),
        ({"avro_schema_string": '"int"'}, "that of a record"),
        (
            {"avro_schema_string": RECURSIVE},
            "holds itself",
        ),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(given_: dict[str, str], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        AvroRowDeserializationSchema(**given_)


def test_schemas_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text(SMALL)
    assert (
        AvroSchema.parse_file(str(tmp_path / "s.avsc")).row_type()
        == AvroSchema.parse_string(SMALL).row_type()
    )
