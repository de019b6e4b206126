"""Values to records and back."""

import dataclasses
import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.log import DecodeError, Json, Raw, SchemaFormat, Text
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.formats.value_format import as_format


def _binary(*values):
    return pa.array(values, pa.binary())


def _texts(encoded):
    values = encoded.to_pylist() if isinstance(encoded, pa.Array) else encoded
    return [value.decode() for value in values]


def test_raw_and_text():
    assert Raw().decode(_binary(b"a", b"\xff")) == [b"a", b"\xff"]
    assert Text().decode(_binary("ä".encode(), b"")) == ["ä", ""]
    assert Raw().encode(Batch.of_rows([b"x"])) == [b"x"]
    assert _texts(Text().encode(Batch.of_rows(["ä"]))) == ["ä"]
    column = pa.record_batch({"v": pa.array(["p", "q"])})
    assert _texts(Text().encode(Batch.of_columns(column))) == ["p", "q"]
    assert _texts(Raw().encode(Batch.of_columns(column))) == ["p", "q"]
    with pytest.raises(DecodeError) as error:
        Text().decode(_binary(b"ok", b"\xff"))
    assert error.value.index == 1
    with pytest.raises(ConnectorError, match="Text writes str and a record is int: 5"):
        Text().encode(Batch.of_rows(["a", 5]))
    with pytest.raises(ConnectorError, match=r"have 2 \(a, b\)"):
        Raw().encode(Batch.of_columns(pa.record_batch({"a": [b"x"], "b": [b"y"]})))


class _Upper:
    def deserialize(self, value):
        if value == b"bad":
            raise ValueError("no")
        return None if value == b"skip" else value.decode().upper()

    def serialize(self, record):
        return record.lower().encode()


def test_objects_with_deserialize_stand_in():
    adapted = as_format(_Upper())
    assert isinstance(adapted, SchemaFormat) and adapted.skips_none
    assert adapted.decode(_binary(b"a", b"skip")) == ["A", None]
    assert adapted.encode(Batch.of_rows(["AB"])) == [b"ab"]
    with pytest.raises(DecodeError) as error:
        adapted.decode(_binary(b"a", b"b", b"bad"))
    assert error.value.index == 2
    with pytest.raises(ConfigError, match="no value format"):
        as_format("json")


SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())])


def test_json_with_a_schema_gives_columns():
    decoded = Json(SCHEMA).decode(
        _binary(b'{"id":1,"name":"a","x":1.5}', b'{"name":"b","more":[1]}', b' {"id":3,\n"x":2} ')
    )
    assert decoded.schema == SCHEMA
    assert decoded.to_pylist() == [
        {"id": 1, "name": "a", "x": 1.5},
        {"id": None, "name": "b", "x": None},
        {"id": 3, "name": None, "x": 2.0},
    ]
    assert Json(SCHEMA).decode(_binary()).num_rows == 0


@pytest.mark.parametrize(
    "values, index, reason",
    [
        ([b'{"id":1}', b'{"id":'], 1, "malformed"),
        ([b'{"id":1}', b"", b'{"id":2}{"id":3}'], 1, "malformed"),
        ([b'{"id":2}{"id":3}', b""], 0, "malformed"),
        ([b'{"id":{"x":', b'{}}}{"id":1}'], 0, "malformed"),
        ([b'{"id":1}', b"[1]"], 1, "not a JSON object"),
        ([b'{"id":1}', b"null"], 1, "not a JSON object"),
        ([b'{"id":1}', b'{"id":"seven"}'], 1, "does not fit the schema"),
        ([b'{"id":1}', b'{"id":1.5}'], 1, "does not fit the schema"),
        ([b'{"id":1}', b'{"name":"\xff"}'], 1, "not UTF-8"),
        ([b'{"name":"a', b'b"}'], 0, "malformed"),
    ],
)
def test_the_bad_value_is_named(values, index, reason):
    with pytest.raises(DecodeError, match=reason) as error:
        Json(SCHEMA).decode(_binary(*values))
    assert error.value.index == index


def test_json_without_a_schema_gives_objects():
    assert Json().decode(_binary(b'{"a":[1,null]}', b" 5 ")) == [{"a": [1, None]}, 5]
    with pytest.raises(DecodeError, match="malformed") as error:
        Json().decode(_binary(b"1", b"2", b"{"))
    assert error.value.index == 2


@dataclasses.dataclass
class _Point:
    x: int


def test_rows_to_json():
    rows = [{"a": 1}, Row(id=1, inner=Row(1, 2)), _Point(3), [float("nan"), decimal.Decimal("1.5"), b"b"]]
    rows += [{"d": dt.date(2020, 1, 2), "n": [float("inf")]}, "ä", pa.scalar(1).as_py()]
    assert _texts(Json().encode(Batch.of_rows(rows))) == [
        '{"a":1}',
        '{"id":1,"inner":[1,2]}',
        '{"x":3}',
        '[null,1.5,"b"]',
        '{"d":"2020-01-02","n":[null]}',
        '"ä"',
        "1",
    ]
    with pytest.raises(ConnectorError, match="cannot write a object"):
        Json().encode(Batch.of_rows([object()]))


_ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        'na"me': st.none() | st.text(max_size=8),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.none() | st.booleans(),
        "nested": st.none()
        | st.fixed_dictionaries({"s": st.text(max_size=4), "n": st.none() | st.integers(0, 9)}),
        "many": st.none() | st.lists(st.integers(0, 9) | st.none(), max_size=3),
    }
)
_ROW_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ('na"me', pa.string()),
        ("x", pa.float64()),
        ("flag", pa.bool_()),
        ("nested", pa.struct([("s", pa.string()), ("n", pa.int64())])),
        ("many", pa.list_(pa.int64())),
    ]
)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(_ROW, max_size=5), start=st.integers(0, 2))
def test_columns_to_json_equals_the_rows_one_by_one(rows, start):
    columns = pa.RecordBatch.from_pylist(rows, schema=_ROW_SCHEMA).slice(min(start, len(rows)))
    encoded = Json().encode(Batch.of_columns(columns))
    assert [json.loads(text) for text in _texts(encoded)] == columns.to_pylist()
    assert Json(_ROW_SCHEMA).decode(encoded).to_pylist() == columns.to_pylist()


def test_columns_of_other_types_to_json():
    when = dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    columns = pa.record_batch(
        {
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "t": pa.array([when, None], pa.timestamp("ms", "UTC")),
            "day": pa.array([dt.date(2020, 1, 2), None]),
            "f": pa.array([float("nan"), 2.0]),
            "dec": pa.array([decimal.Decimal("1.50"), None]),
            "b": pa.array([b"x", b"y"]),
        }
    )
    assert _texts(Json().encode(Batch.of_columns(columns))) == [
        '{"d":"a","t":"2020-01-02T03:04:05.000Z","day":"2020-01-02","f":null,"dec":1.50,"b":"x"}',
        '{"d":"b","t":null,"day":null,"f":2.0,"dec":null,"b":"y"}',
    ]
    nothing = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert _texts(Json().encode(Batch.of_columns(nothing))) == ["{}", "{}"]
    with pytest.raises(ConnectorError, match="not UTF-8"):
        Json().encode(Batch.of_columns(pa.record_batch({"b": [b"\xff"]})))
