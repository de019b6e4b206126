"""Declared types as Arrow columns: what fits comes back as it was, what does not is pickled."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.durations import Instant
from penstock.core.row import Row, RowKind
from penstock.core.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from penstock.state.columns import decode, encode
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.schema import StateSchema, type_from_json, type_to_json

GROUPS = 8
TEXT = st.text(max_size=5)
INT64 = st.integers(-(2**63), 2**63 - 1)
LEAVES: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), st.text(st.characters(exclude_categories=("Cs",)), max_size=5)),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BYTE(), st.integers(-128, 127)),
    (Types.SHORT(), st.integers(-(2**15), 2**15 - 1)),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.LONG(), INT64),
    (Types.BIG_INT(), INT64),
    (Types.FLOAT(), st.floats(allow_nan=False)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False)),
    (Types.INSTANT(), st.builds(Instant, st.integers(-(2**33), 2**33), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times().filter(lambda t: not t.fold)),
    (Types.SQL_TIMESTAMP(), st.datetimes(allow_imaginary=False).filter(lambda t: not t.fold)),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), st.dates()),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=4)),
    (ExternalTypeInfo(Types.LONG()), INT64),
]

Typed = tuple[TypeInformation, st.SearchStrategy[Any]]


def optional(typed: Typed) -> Typed:
    return typed[0], st.one_of(st.none(), typed[1])


def _row(fields: list[Typed]) -> Typed:
    names = [f"n{n}" for n in range(len(fields))]
    values = st.tuples(*[values for _, values in fields])
    made = values.map(lambda v: Row.many(names, [v])[0])
    return Types.ROW_NAMED(names, [kind for kind, _ in fields]), made


def _unnamed_row(fields: list[Typed]) -> Typed:
    values = st.tuples(*[values for _, values in fields])
    return Types.ROW([kind for kind, _ in fields]), values.map(lambda v: Row(*v))


def _tuple(fields: list[Typed]) -> Typed:
    return Types.TUPLE([kind for kind, _ in fields]), st.tuples(*[values for _, values in fields])


def _list(typed: Typed) -> Typed:
    return Types.LIST(typed[0]), st.lists(typed[1], max_size=3)


def _map(typed: Typed) -> Typed:
    keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=3)
    return Types.MAP(Types.STRING(), typed[0]), st.dictionaries(keys, typed[1], max_size=3)


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    several = st.lists(inner.map(optional), min_size=1, max_size=3)
    return st.one_of(
        several.map(_row),
        several.map(_unnamed_row),
        several.map(_tuple),
        inner.map(optional).map(_list),
        inner.map(optional).map(_map),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=6)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Row):
        return left.field_names() == right.field_names() and same(tuple(left), tuple(right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and same(list(left.values()), list(right.values()))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def encoded(values: list[Any], kind: TypeInformation) -> Any:
    return encode(values, type_from_json(type_to_json(kind)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_of_the_declared_type_comes_back_exactly(data: st.DataObject) -> None:
    kind, values = data.draw(TYPES)
    known = type_from_json(type_to_json(kind))
    drawn = data.draw(st.lists(st.one_of(st.none(), values), max_size=6))
    array = encode(drawn, known)
    assert array is not None and len(array) == len(drawn)
    array.validate(full=True)
    assert same(decode(array, known), drawn)
    if len(drawn) > 1:
        assert same(decode(array.take([len(drawn) - 1, 0]), known), [drawn[-1], drawn[0]])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["value", "list", "map", "reducing", "aggregating"]), st.booleans())
def test_any_value_survives_a_state_file_whatever_was_declared(
    data: st.DataObject, kind: str, all_right: bool
) -> None:
    declared, right = data.draw(TYPES)
    wrong = st.one_of(st.integers(2**63, 2**70), TEXT, st.tuples(st.integers(), TEXT), st.booleans())
    item = right if all_right else st.one_of(right, wrong)
    values = {
        "list": st.lists(item, min_size=1, max_size=3),
        "map": st.dictionaries(st.integers(), item, min_size=1, max_size=3),
    }.get(kind, item)
    content = data.draw(st.dictionaries(st.integers(0, 99), values, min_size=1, max_size=5))
    state = heap_state()
    descriptor: StateDescriptor = {
        "value": ValueStateDescriptor("s", declared),
        "list": ListStateDescriptor("s", declared),
        "map": MapStateDescriptor("s", Types.LONG(), declared),
        "reducing": ReducingStateDescriptor("s", max, declared),
        "aggregating": AggregatingStateDescriptor("s", None, declared),
    }[kind]
    state.handle(descriptor)
    for key, value in content.items():
        state.table("s").put(key, value)
    ((block, pickled),) = write_blocks(state.freeze(), GROUPS)
    assert not (all_right and pickled) or kind == "map"
    (found,) = StateBlocks(block, 0, GROUPS - 1).tables()
    assert found.schema == StateSchema.of(descriptor)
    assert same(dict(sorted(zip(found.entries, found.values, strict=True))), dict(sorted(content.items())))


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.INT(), 2**31),
        (Types.LONG(), 2**63),
        (Types.BIG_INT(), 2**80),
        (Types.LONG(), True),
        (Types.LONG(), Colour.RED),
        (Types.LONG(), 1.0),
        (Types.DOUBLE(), 1),
        (Types.STRING(), "\ud800"),
        (Types.STRING(), b"x"),
        (Types.TUPLE([Types.LONG()]), (1, 2)),
        (Types.TUPLE([Types.LONG()]), [1]),
        (Types.TUPLE([]), ()),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(b=1)),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), {"a": 1}),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row.of_kind(RowKind.DELETE, a=1)),
        (Types.ROW([Types.LONG()]), Row(f0=1)),
        (Types.LIST(Types.LONG()), (1, 2)),
        (Types.LIST(Types.LONG()), [1, "a"]),
        (Types.SQL_DATE(), dt.datetime(2020, 1, 1)),  # noqa: DTZ001
        (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (Types.SQL_TIME(), dt.time(1, fold=1)),
        (Types.BIG_DEC(), 1.5),
        (Types.PICKLED_BYTE_ARRAY(), 1),
        (Types.INSTANT(), Instant(2**60, 0)),
    ],
)
def test_what_is_not_quite_of_the_type_does_not_fit(kind: TypeInformation, value: Any) -> None:
    assert encoded([value], kind) is None


def test_exact_floats_and_decimals() -> None:
    for kind, values in [
        (Types.FLOAT(), [0.1, math.inf, -0.0]),
        (Types.BIG_DEC(), [decimal.Decimal("1.50"), decimal.Decimal("1E+20"), None]),
    ]:
        assert same(decode(encoded(values, kind), kind), values)
    assert math.isnan(decode(encoded([math.nan], Types.DOUBLE()), Types.DOUBLE())[0])


def test_unnamed_rows_take_the_declared_names() -> None:
    kind = Types.ROW_NAMED(["a"], [Types.LONG()])
    assert decode(encoded([Row(1), None], kind), kind) == [Row(a=1), None]


@settings(max_examples=100, deadline=None)
@given(TYPES)
def test_types_survive_json(typed: Typed) -> None:
    written = json.loads(json.dumps(type_to_json(typed[0])))
    assert type_to_json(type_from_json(written)) == written
