"""Values that text formats easily change or break on: long decimals, NaN, zones, halves of characters."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Types
from penstock.core.errors import ConnectorError
from penstock.core.row import Row
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema


def json_both(*kinds: Any) -> tuple[JsonRowSerializationSchema, JsonRowDeserializationSchema]:
    row_type = Types.ROW_NAMED([f"c{i}" for i in range(len(kinds))], list(kinds))
    return (
        JsonRowSerializationSchema.builder().with_type_info(row_type).build(),
        JsonRowDeserializationSchema.builder().type_info(row_type).build(),
    )


@settings(max_examples=60)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_every_decimal_comes_back_from_json(value: Decimal) -> None:
    write, read = json_both(Types.BIG_DEC())
    assert read.deserialize(write.serialize(Row(c0=value))) == Row(c0=value)


@pytest.mark.parametrize("text", ["12345678901234567.89", "0.12345678901234567890123", "-1e-30", "7"])
def test_json_decimals_are_read_and_written_digit_by_digit(text: str) -> None:
    write, read = json_both(Types.BIG_DEC())
    row = read.deserialize(b'{"c0":%s}' % text.encode())
    assert row == Row(c0=Decimal(text))
    assert json.loads(write.serialize(row), parse_float=Decimal, parse_int=Decimal)["c0"] == Decimal(text)


def test_json_decimals_within_others_and_beside_doubles() -> None:
    inner = Types.ROW_NAMED(["d"], [Types.BIG_DEC()])
    kinds = [
        Types.OBJECT_ARRAY(Types.BIG_DEC()),
        Types.MAP(Types.STRING(), Types.BIG_DEC()),
        inner,
        Types.DOUBLE(),
        Types.STRING(),
    ]
    write, read = json_both(*kinds)
    long = Decimal("1234567890.12345678901")
    row = Row(c0=[long], c1={"k": long}, c2=Row(d=long), c3=0.5, c4="1.25")
    found = read.deserialize(write.serialize(row))
    assert found is not None and found == row
    assert type(found["c3"]) is float
    nested = read.deserialize(b'{"c4": {"x": 0.5}}')
    assert nested is not None and nested["c4"] == '{"x":0.5}'
    assert pickle.loads(pickle.dumps(found)) == row


@pytest.mark.parametrize("text", ["1e999999999", "-7E+123456789"])
def test_a_decimal_of_more_digits_than_memory_goes_through_json(text: str) -> None:
    write, read = json_both(Types.BIG_DEC())
    row = Row(c0=Decimal(text))
    written = write.serialize(row)
    assert len(written) < 100
    assert read.deserialize(written) == row


@pytest.mark.parametrize(("value", "name"), [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")])
def test_what_is_no_number_is_text_in_json(value: str, name: str) -> None:
    write, read = json_both(Types.DOUBLE(), Types.OBJECT_ARRAY(Types.DOUBLE()))
    written = write.serialize(Row(c0=float(value), c1=[1.0, float(value)]))
    assert written == b'{"c0":"%s","c1":[1.0,"%s"]}' % (name.encode(), name.encode())
    found = read.deserialize(written)
    assert found is not None and str(found["c0"]) == value


def test_a_timestamp_with_a_zone_is_written_in_utc() -> None:
    write, read = json_both(Types.SQL_TIMESTAMP())
    noon = dt.datetime(1969, 7, 20, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    written = write.serialize(Row(c0=noon))
    assert written == b'{"c0":"1969-07-20T10:00:00Z"}'
    assert read.deserialize(written) == Row(c0=noon.astimezone(dt.UTC).replace(tzinfo=None))


def test_half_of_a_character_is_a_bad_record_where_it_is_read() -> None:
    row_type = Types.ROW_NAMED(["c0"], [Types.STRING()])
    read = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    assert read.deserialize(rb'{"c0":"\ud83d\ude00"}') == Row(c0="\U0001f600")
    with pytest.raises(ConnectorError, match="ignore_parse_errors"):
        read.deserialize(rb'{"c0":"\ud83d"}')
    lenient = JsonRowDeserializationSchema.builder().type_info(row_type).ignore_parse_errors().build()
    assert lenient.deserialize(rb'{"c0":"\ud83d"}') is None


def test_a_very_long_value_goes_through_csv() -> None:
    row_type = Types.ROW_NAMED(["c0", "c1"], [Types.STRING(), Types.INT()])
    row = Row(c0='x"\n' * 100_000, c1=1)
    line = CsvRowSerializationSchema.Builder(row_type).build().serialize(row)
    assert CsvRowDeserializationSchema.Builder(row_type).build().deserialize(line) == row
