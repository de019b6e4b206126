"""The form of keys: one for all that are equal; what could not be found again is refused, in a sentence."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pickle
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.core.key_kinds import in_words, kinds_of
from penstock.core.keys import NAN, canonical_column, canonical_keys
from penstock.core.row import Row
from penstock.exchange.partition import Hash, make_router

WARSAW = ZoneInfo("Europe/Warsaw")


@dataclasses.dataclass(frozen=True)
class Place:
    name: str


@dataclasses.dataclass
class Loose:
    name: str


@dataclasses.dataclass(frozen=True, eq=False)
class Alone:
    name: str


@dataclasses.dataclass(frozen=True)
class Caseless:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caseless) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


class CaselessText(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Colour(enum.Enum):
    RED = 1


def local_classes() -> tuple[Any, Any]:
    @dataclasses.dataclass(frozen=True)
    class Here:
        x: int

    return Here(1), enum.Enum("Made", "A B").A  # type: ignore[attr-defined]


HERE, MADE = local_classes()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (None, "None"),
        (Loose("a"), "frozen=True"),
        (Alone("a"), "eq=False"),
        (Caseless("a"), "Caseless are compared by an __eq__"),
        (CaselessText("a"), "CaselessText are compared by an __eq__"),
        (HERE, "Here would not be found again after a restart.*top level"),
        (MADE, "Made would not be found again after a restart.*name of the member"),
        ((1, HERE), "Here"),
        (Place([]), "list"),  # type: ignore[arg-type]
        (bytearray(b"a"), "bytearray"),
        (memoryview(b"a"), "memoryview"),
        (frozenset({1}), "frozenset"),
        (1j, "complex"),
        (Fraction(1, 3), "Fraction"),
        (ipaddress.ip_address("::1"), "IPv6Address"),
        (pa.scalar(1), "Int64Scalar"),
        (np.datetime64("2024-01-01"), "datetime64.*item"),
        (np.timedelta64(1, "s"), "timedelta64.*item"),
        (np.longdouble(0.1), "longdouble"),
        (pd.NaT, "NaT"),
        (object(), "object"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("receivers", [1, 3])
def test_what_cannot_be_a_key_is_refused_at_the_first_record(key: Any, says: str, receivers: int) -> None:
    router = make_router(Hash(selector=lambda row: row[0]), 0, 1, receivers, 128)
    with pytest.raises(KeyError_, match=says):
        list(router.route(Batch.of_rows([(key,)])))


def test_plain_keys_are_not_touched() -> None:
    for keys in ([1, 2], ["a"], [b"a"], [True], [1.5, 2.5], [(1, "a", None)], [1, "a"]):
        assert canonical_keys(keys) is keys  # type: ignore[arg-type]


def test_every_nan_is_one_key_wherever_it_stands() -> None:
    nans = [
        float("nan"),
        np.float64("nan"),
        np.float32("nan"),
        decimal.Decimal("NaN"),
        decimal.Decimal("sNaN"),
    ]
    assert all(key is NAN for key in canonical_keys(nans))
    for make in (lambda x: (1, x), lambda x: Row(a=x), lambda x: Place(x), lambda x: (1, (2, x))):
        keys = canonical_keys([make(nan) for nan in nans])
        assert len(set(keys)) == 1
        assert pickle.loads(pickle.dumps(keys))[0] == keys[0]
        assert copy.deepcopy(keys[0]) == keys[0]


def test_the_original_key_is_left_alone() -> None:
    key = Place(float("nan"))  # type: ignore[arg-type]
    (made,) = canonical_keys([key])
    assert made is not key and key.name is not NAN


def test_times_at_which_clocks_are_put_back_are_moments() -> None:
    """To Python the two are equal, and neither is equal to the same moment in UTC."""
    first = dt.datetime.fromisoformat("2024-10-27T02:30").replace(tzinfo=WARSAW)
    second = first.replace(fold=1)
    assert first == second and first != first.astimezone(dt.UTC)
    for one, other in ((first, second), (pd.Timestamp(first), pd.Timestamp(second))):
        keys = canonical_keys([one, other, one.astimezone(dt.UTC)])
        assert keys[0] != keys[1] and keys[0] == keys[2] and hash(keys[0]) == hash(keys[2])


def test_values_of_numpy_become_pythons() -> None:
    keys = canonical_keys([np.int64(1), np.str_("a"), np.bytes_(b"a"), np.bool_(True), np.float32(0.5)])
    assert [type(key) for key in keys] == [int, str, bytes, bool, float]


def test_columns_of_keys_have_one_zero_and_one_nan() -> None:
    odd = np.array([0xFFF8000000000001, 0x8000000000000000], np.uint64).view(np.float64)
    column = pa.chunked_array([pa.array([*odd, 0.0, float("nan"), 1.5])])
    table = pa.table({"k": canonical_column(column)}).group_by("k").aggregate([("k", "count")])
    assert sorted(table.column("k_count").to_pylist()) == [1, 2, 2]


@pytest.mark.parametrize(
    ("keys", "kinds"),
    [
        ([1, 2.0, decimal.Decimal(1), True], {"number"}),
        (["a"], {"str"}),
        ([("a", 1), ("b", 2)], {"tuple of (str, number)"}),
        ([("a", 1), ("b",)], {"tuple of (str, number)", "tuple of (str)"}),
        ([Colour.RED, Place("a")], {f"{__name__}.Colour", f"{__name__}.Place of (str)"}),
        ([dt.datetime.fromisoformat("2024-01-01"), dt.date(2024, 1, 1)], {"datetime", "date"}),
        ([Row(1, 2)], {"Row of (number, number)"}),
        ([], set()),
    ],
)
def test_kinds_of_keys(keys: list[Any], kinds: set[str]) -> None:
    assert {in_words([kind]) for kind in kinds_of(keys)} == kinds
