"""Types, their column forms, and values as text."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Instant, Row, RowKind, Types
from penstock.common.typeinfo import (
    BasicTypeInfo,
    ExternalTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
)
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.render import java_text
from penstock.core.typeinfo import as_type_info, to_arrow


def naive(*parts):
    """A datetime without time zone, as SQL timestamps are."""
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=None)


ALL = [
    Types.STRING(), Types.BYTE(), Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(),
    Types.DOUBLE(), Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE(),
    Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PICKLED_BYTE_ARRAY(), Types.ROW([Types.INT()]),
    Types.ROW_NAMED(["a"], [Types.INT()]), Types.TUPLE([Types.INT()]), Types.PRIMITIVE_ARRAY(Types.INT()),
    Types.BASIC_ARRAY(Types.INT()), Types.OBJECT_ARRAY(Types.INT()), Types.LIST(Types.INT()),
    Types.MAP(Types.INT(), Types.STRING()),
]  # fmt: skip


def test_types_differ_from_each_other_and_equal_themselves():
    assert len(set(ALL)) == len(ALL)
    assert len({repr(kind) for kind in ALL}) == len(ALL)
    assert BasicTypeInfo.LONG_TYPE_INFO() == Types.LONG()
    assert SqlTimeTypeInfo.DATE() == Types.SQL_DATE()


def test_rows_and_tuples():
    row = RowTypeInfo([Types.STRING(), Types.STRING()], ["a", "b"])
    assert row.get_field_names() == ["a", "b"]
    assert (row.get_field_index("b"), row.get_field_index("z")) == (1, -1)
    assert row.get_field_types() == [Types.STRING(), Types.STRING()]
    assert repr(row) == "RowTypeInfo(a: String, b: String)"
    assert Types.ROW([Types.STRING()]).get_field_names() == ["f0"]
    assert row != RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"])
    assert repr(TupleTypeInfo([Types.STRING(), Types.INT()])) == "TupleTypeInfo(String, Integer)"
    with pytest.raises(ConfigError, match="2 names, 1 types"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(ConfigError, match="differ"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


def test_a_list_of_types_means_a_row():
    assert as_type_info([Types.INT(), Types.STRING()]) == Types.ROW([Types.INT(), Types.STRING()])
    assert as_type_info(None) is None
    with pytest.raises(ConfigError, match="no type"):
        as_type_info([int])


def test_java_types_are_refused_with_a_way_out():
    with pytest.raises(ConfigError, match="to_arrow"):
        Types.INT().get_java_type_info()


def test_internal_values_round_trip():
    kind = Types.ROW_NAMED(
        ["d", "t", "ts", "i", "n"],
        [
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.TUPLE([Types.SQL_DATE()]),
        ],
    )
    row = Row(
        d=dt.date(2020, 2, 29), t=dt.time(1, 2, 3, 4), ts=naive(1969, 12, 31, 23, 59, 59, 5),
        i=Instant(-2, 3000), n=(dt.date(1969, 1, 1),),
    )  # fmt: skip
    assert kind.from_internal_type(kind.to_internal_type(row)) == row
    assert kind.from_internal_type(kind.to_internal_type(row.as_dict())) == row
    assert kind.to_internal_type(None) is None


@pytest.mark.parametrize(
    "kind",
    [
        None,
        Types.PICKLED_BYTE_ARRAY(),
        Types.BIG_INT(),
        Types.BIG_DEC(),
        Types.INSTANT(),
        Types.MAP(Types.INT(), Types.INT()),
        Types.TUPLE([Types.INT()]),
        Types.ROW([Types.ROW([Types.INT()])]),
        Types.ROW([Types.INT(), Types.PICKLED_BYTE_ARRAY()]),
        Types.LIST(Types.BIG_DEC()),
        Types.ROW([]),
    ],
)
def test_no_columns_where_they_would_not_be_faithful(kind):
    assert to_arrow(kind) is None


def test_columns_of_rows():
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    assert to_arrow(kind) == pa.struct([("a", pa.int32()), ("b", pa.binary())])
    assert to_arrow(ExternalTypeInfo(kind)) == to_arrow(kind)
    assert to_arrow(Types.LIST(Types.DOUBLE())) == pa.list_(pa.float64())


VALUES = {
    Types.STRING(): st.text(max_size=5),
    Types.BOOLEAN(): st.booleans(),
    Types.SHORT(): st.integers(-(2**15), 2**15 - 1),
    Types.LONG(): st.integers(-(2**63), 2**63 - 1),
    Types.DOUBLE(): st.floats(allow_nan=False),
    Types.FLOAT(): st.floats(width=32, allow_nan=False),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIME(): st.times(),
    Types.SQL_TIMESTAMP(): st.datetimes(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.binary(max_size=4),
    Types.LIST(Types.INT()): st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    Types.LIST(Types.SQL_DATE()): st.lists(st.none() | st.dates(), max_size=3),
}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*(st.none() | values for values in VALUES.values())), max_size=3))
def test_values_come_back_from_columns_as_they_went_in(tuples):
    kind = Types.ROW(list(VALUES))
    struct = to_arrow(kind)
    columns = [pa.array([t[i] for t in tuples], field.type) for i, field in enumerate(struct)]
    batch = Batch.of_columns(pa.record_batch(columns, schema=pa.schema(list(struct))))
    assert batch.to_rows() == Row.many(kind.get_field_names(), tuples)


# --- text ---

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (("a", 1), Types.TUPLE([Types.STRING(), Types.INT()]), "(a,1)"),
        (Row("a", 1), Types.ROW([Types.STRING(), Types.INT()]), "+I[a,1]"),
        (Row.of_kind(RowKind.DELETE, None), Types.ROW([Types.STRING()]), "-D[None]"),
        (None, Types.STRING(), "null"),
        (True, Types.BOOLEAN(), "true"),
        (b"flink\xff", BYTES, "[102, 108, 105, 110, 107, -1]"),
        (naive(2018, 3, 11, 3, 0, 0, 123000), Types.SQL_TIMESTAMP(), "2018-03-11 03:00:00.123"),
        (naive(2018, 3, 11, 3), Types.SQL_TIMESTAMP(), "2018-03-11 03:00:00.0"),
        (dt.time(12, 0, 0, 123000), Types.SQL_TIME(), "12:00:00"),
        (dt.date(2014, 9, 13), Types.SQL_DATE(), "2014-09-13"),
        ([1, 2], Types.LIST(Types.INT()), "[1, 2]"),
        ({"a": 1.0, "b": None}, Types.MAP(Types.STRING(), Types.DOUBLE()), "{a=1.0, b=null}"),
        (1.98932, Types.FLOAT(), "1.98932"),
        (0.1 + 0.2, Types.DOUBLE(), "0.30000000000000004"),
        (1e7, Types.DOUBLE(), "1.0E7"),
        (9999999.0, Types.DOUBLE(), "9999999.0"),
        (0.001, Types.DOUBLE(), "0.001"),
        (0.00012, Types.DOUBLE(), "1.2E-4"),
        (-1.5e300, Types.DOUBLE(), "-1.5E300"),
        (-0.0, Types.DOUBLE(), "-0.0"),
        (100.0, Types.DOUBLE(), "100.0"),
        (float("nan"), Types.DOUBLE(), "NaN"),
        (float("-inf"), Types.FLOAT(), "-Infinity"),
        (Decimal("1.50"), Types.BIG_DEC(), "1.50"),
        (Instant(0, 0), Types.INSTANT(), "1970-01-01T00:00:00Z"),
        (Instant(1, 5_000_000), Types.INSTANT(), "1970-01-01T00:00:01.005Z"),
        (Row(("x", 2), [True]), Types.ROW([Types.TUPLE([Types.STRING(), Types.INT()]),
         Types.LIST(Types.BOOLEAN())]), "+I[('x', 2),[True]]"),
        (Row(1), ExternalTypeInfo(Types.ROW([Types.INT()])), "+I[1]"),
    ],
)  # fmt: skip
def test_typed_values_look_as_in_flink(value, kind, text):
    assert java_text(value, kind) == text


def test_spaced_rows_and_untyped_values():
    row = Row("a", 1)
    assert java_text(row, Types.ROW([Types.STRING(), Types.INT()]), spaced=True) == "+I[a, 1]"
    nested = Types.TUPLE([Types.INT(), Types.ROW([Types.INT(), Types.STRING()])])
    assert java_text((1, Row(2, None)), nested) == "(1,+I[2, null])"
    pair = Types.ROW([Types.INT(), Types.BOOLEAN()])
    assert java_text(Row(None, True), pair, spaced=True) == "+I[null, true]"
    assert java_text(row) == str(row)
    assert java_text(True) == "True"
    assert java_text(None, Types.PICKLED_BYTE_ARRAY()) == "None"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_text_keeps_the_number(value):
    assert float(java_text(value, Types.DOUBLE())) == value
