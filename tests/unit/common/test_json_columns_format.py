"""Many JSON messages at once give the records that they give one by one."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Types
from penstock.core.errors import ConnectorError
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.formats.bad_records import DecodeError

TYPE = Types.ROW_NAMED(
    ["l", "i", "s", "d", "b"],
    [Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()],
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-100, 100),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)
USUAL = st.fixed_dictionaries(
    {},
    optional={
        "l": st.none() | st.integers(-(2**63), 2**63 - 1),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "s": st.none() | st.text(max_size=6),
        "d": st.none() | st.floats() | st.integers(-(2**60), 2**60),
        "b": st.none() | st.booleans(),
        "more": VALUES,
    },
)
ODD = st.dictionaries(st.sampled_from(["l", "i", "s", "d", "b"]), VALUES)
MESSAGES = st.one_of(
    st.builds(
        lambda found, ascii: json.dumps(found, ensure_ascii=ascii).encode(errors="replace"),
        USUAL | ODD,
        st.booleans(),
    ),
    st.sampled_from(
        [b"", b"5", b"[]", b"{}{}", b' {"l": 1}\n', b"\xff", b'{"l":1,"l":2}', b'{"s":"\xc3\xa4"}']
    ),
)


def schema(strict: bool = False, ignore: bool = False) -> JsonRowDeserializationSchema:
    builder = JsonRowDeserializationSchema.builder().type_info(TYPE)
    if strict:
        builder.fail_on_missing_field()
    if ignore:
        builder.ignore_parse_errors()
    return builder.build()


def one_by_one(made: JsonRowDeserializationSchema, messages: list[bytes]) -> Any:
    try:
        return [made.deserialize(message) for message in messages]
    except ConnectorError:
        return "error"


def at_once(made: JsonRowDeserializationSchema, messages: list[bytes]) -> Any:
    try:
        found = made.value_format().decode(pa.array(messages, pa.binary()))
    except DecodeError:
        return "error"
    return found if isinstance(found, list) else [tuple(row.values()) for row in found.to_pylist()]


def plain(records: Any) -> Any:
    if records == "error":
        return records
    return [
        None
        if r is None
        else tuple("nan" if isinstance(v, float) and math.isnan(v) else (type(v), v) for v in r)
        for r in records
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=6), st.sampled_from([(False, False), (True, False), (False, True)]))
def test_at_once_is_one_by_one(messages: list[bytes], modes: tuple[bool, bool]) -> None:
    made = schema(*modes)
    assert plain(at_once(made, messages)) == plain(one_by_one(made, messages))


def test_usual_messages_become_columns() -> None:
    found = schema().value_format().decode(pa.array([b'{"l":1,"d":2}', b'{"s":"x"}'], pa.binary()))
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.field("i").type == pa.int32()


@pytest.mark.parametrize(
    "kind", [Types.SQL_TIMESTAMP(), Types.BIG_DEC(), Types.FLOAT(), Types.ROW([Types.INT()])]
)
def test_types_that_need_a_conversion_stay_rows(kind: Any) -> None:
    made = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [kind])).build()
    found = made.value_format().decode(pa.array([b'{"a": null}'], pa.binary()))
    assert isinstance(found, list) and found[0]["a"] is None
