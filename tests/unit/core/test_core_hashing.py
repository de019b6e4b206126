"""The hash of keys: one formula for scalars and columns, and pinned for ever."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import KeyError_
from penstock.core.keygroups import combine_columns, hash_array, hash_value, hash_values, key_groups
from penstock.core.row import Row


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass(frozen=True)
class Place:
    x: int
    name: str


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(st.booleans(), INT64, st.integers(), st.floats(allow_nan=False))
KEYS = st.one_of(NUMBERS, TEXT, st.binary(max_size=12), st.dates(), st.uuids(), st.tuples(INT64, TEXT))

COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), INT64),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=9)),
    "fixed_binary": (pa.binary(4), st.binary(min_size=4, max_size=4)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us"),
        st.datetimes(dt.datetime.fromisoformat("1700-01-01"), dt.datetime.fromisoformat("2200-01-01")),
    ),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**9), 10**9, places=4)),
}


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_column_hashes_as_its_values_do(kind: str, data: st.DataObject) -> None:
    wanted, values = COLUMNS[kind]
    column = pa.array(data.draw(st.lists(values, max_size=20)), wanted)
    expected = [hash_value(value) for value in column.to_pylist()]
    assert hash_array(column).tolist() == expected
    assert hash_array(pa.chunked_array([column, column.slice(0, 1)])).tolist() == expected + expected[:1]
    start = len(column) // 3
    assert hash_array(column.slice(start)).tolist() == expected[start:]
    if kind in ("string", "int64", "binary"):
        assert hash_array(column.dictionary_encode()).tolist() == expected
        assert hash_array(column.dictionary_encode().slice(start)).tolist() == expected[start:]


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, max_size=15))
def test_a_list_hashes_as_its_values_do(values: list[Any]) -> None:
    assert hash_values(values).tolist() == [hash_value(value) for value in values]


@settings(max_examples=300, deadline=None)
@given(NUMBERS)
def test_numbers_that_are_equal_hash_equal(number: Any) -> None:
    for kind in (int, float, decimal.Decimal, bool):
        try:
            other = kind(number)
        except (OverflowError, ValueError):
            continue
        if other == number:
            assert hash_value(other) == hash_value(number), (other, number)


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True, decimal.Decimal(1), np.int8(1), np.float32(1), Level.LOW),
        (0, 0.0, -0.0, False),
        (-(2**63), -(2.0**63), decimal.Decimal(-(2**63))),
        (2**63, 2.0**63, decimal.Decimal(2**63)),
        (2**200, 2.0**200),
        (float("inf"), decimal.Decimal("Infinity")),
        (0.5, decimal.Decimal("0.50")),
        ("a", Word.A, np.str_("a")),
        (b"a", bytearray(b"a")),
        (dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.datetime.fromisoformat("2024-01-01T14:00:00+02:00")),
    ],
)
def test_values_that_python_holds_equal_hash_equal(values: tuple[Any, ...]) -> None:
    assert len({hash_value(value) for value in values}) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.one_of(st.none(), INT64), TEXT, st.booleans()), min_size=1, max_size=10))
def test_several_columns_hash_as_tuples(rows: list[tuple[Any, ...]]) -> None:
    kinds = (pa.int64(), pa.string(), pa.bool_())
    columns = [pa.array(part, kind) for part, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    assert combine_columns(columns).tolist() == [hash_value(row) for row in rows]
    assert [hash_value(Row(*row)) for row in rows] == [hash_value(row) for row in rows]


def golden_keys() -> list[Any]:
    return [
        0, 1, -1, 42, 2**63 - 1, 2**63, 0.5, -1.5, float("inf"), "", "a", "hello", "zażółć", b"", b"\x00\xff",
        (1, "a"), (None, 2.0), (), dt.date(2024, 2, 29), dt.datetime.fromisoformat("2024-02-29T12:30"),
        dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC), dt.timedelta(seconds=90),
        decimal.Decimal("1.10"), uuid.UUID(int=7), Colour.RED, Place(1, "x"),
    ]  # fmt: skip


def test_hashes_never_change() -> None:
    """They decide in which key group stored state lies: a change orphans every snapshot."""
    assert {repr(key): hash_value(key) for key in golden_keys()} == PINNED


def test_none_is_no_key() -> None:
    for attempt in (
        lambda: hash_value(None),
        lambda: hash_values(["a", None]),
        lambda: hash_array(pa.array(["a", None])),
        lambda: hash_array(pa.array(["a", None]).dictionary_encode()),
    ):
        with pytest.raises(KeyError_):
            attempt()


@pytest.mark.parametrize("value", [object(), [1], {"a": 1}, {1}, 1j])
def test_what_has_no_stable_hash_is_refused(value: Any) -> None:
    with pytest.raises(KeyError_, match=type(value).__name__):
        hash_value(value)


def test_zero_bytes_and_lengths_count() -> None:
    near = [b"", b"\0", b"\0\0", b"\1", b"\1\0", b"\0\1", "", "\0"]
    assert len({hash_value(value) for value in near}) == len(near)


@pytest.mark.parametrize("kind", ["ints", "strings", "floats", "pairs"])
def test_keys_spread_over_the_groups(kind: str) -> None:
    count, groups = 20_000, 128
    keys: dict[str, list[Any]] = {
        "ints": list(range(count)),
        "strings": [f"user-{n}" for n in range(count)],
        "floats": [n / 7 for n in range(count)],
        "pairs": [(n % 100, str(n // 100)) for n in range(count)],
    }
    filled = np.bincount(key_groups(hash_values(keys[kind]), groups), minlength=groups)
    mean = count / groups
    assert filled.min() > mean - 6 * mean**0.5 and filled.max() < mean + 6 * mean**0.5


PINNED: dict[str, int] = {
    "0": 16294208416658607535,
    "1": 10451216379200822465,
    "-1": 16490336266968443936,
    "42": 13679457532755275413,
    "9223372036854775807": 3055647633038352039,
    "9223372036854775808": 17462281763080313019,
    "0.5": 4767746698996285380,
    "-1.5": 15796776553697386878,
    "inf": 16680026420726538929,
    "''": 13168350753275463132,
    "'a'": 1866550240620900528,
    "'hello'": 7187086091334355068,
    "'zażółć'": 16525550558741385949,
    "b''": 1346066267577507604,
    "b'\\x00\\xff'": 7773424314732333638,
    "(1, 'a')": 5090591695870704065,
    "(None, 2.0)": 14863951772774666510,
    "()": 11,
    "datetime.date(2024, 2, 29)": 6587558093719458316,
    "datetime.datetime(2024, 2, 29, 12, 30)": 4801337883935947760,
    "datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc)": 18403807929449974636,
    "datetime.timedelta(seconds=90)": 889070246449134732,
    "Decimal('1.10')": 3678405383649616705,
    "UUID('00000000-0000-0000-0000-000000000007')": 4916842547043020198,
    "<Colour.RED: 1>": 4102055575638903024,
    "Place(x=1, name='x')": 235268528450655096,
}


def test_lone_surrogates_are_keys_like_any_other() -> None:
    """They have no UTF-8, so the columns' way of hashing text does not take them."""
    odd, plain = "\udcff", "plain"
    assert hash_values([odd, plain]).tolist() == [hash_value(odd), hash_value(plain)]
    assert hash_value(plain) == int(hash_array(pa.array([plain]))[0])
    assert hash_value(odd) != hash_value("\udcfe") != hash_value((odd,))
    assert hash_value(odd) != hash_value(odd.encode("utf-8", "surrogatepass"))
