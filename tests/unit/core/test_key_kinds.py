"""Kinds of keys: what can never be equal is of two kinds."""

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.core.key_kinds import column_kind, fits, in_words, is_one_kind, kinds_of, outlines
from penstock.core.keys import canonical_keys
from penstock.core.row import Row

NOON = dt.datetime.fromisoformat("2024-05-01 12:00")


class Colour(enum.Enum):
    RED = 1


class Shade(enum.IntEnum):
    RED = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Place:
    name: Any
    seen: Any = field(default=0, compare=False)


SAME = [
    [1, 1.0, True, np.int64(1), np.float32(1), decimal.Decimal(1), Shade.RED, float("nan")],
    ["a", np.str_("a")],
    [b"a", np.bytes_(b"a")],
    [(1, "a"), (2.5, "b"), Pair(1, "a")],
    [(1, ("a", b"b")), (True, ("c", b""))],
    [NOON, pd.Timestamp(NOON)],
    [NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=ZoneInfo("Europe/Warsaw"))],
    [Place(1, "x"), Place(2.0, 5)],
]
DIFFERENT = [
    1, "1", b"1", Colour.RED, uuid.UUID(int=1), NOON, NOON.replace(tzinfo=dt.UTC), NOON.date(), NOON.time(),
    NOON.time().replace(tzinfo=dt.UTC), dt.timedelta(1), (1,), (1, 2), ("1", 2), (1, (2,)), (1, ("2",)),
    Row(1, 2), Row("1", 2), Place(1), Place("1"), Place((1,)),
]  # fmt: skip


@pytest.mark.parametrize("keys", SAME, ids=lambda keys: repr(keys[0]))
def test_keys_that_may_be_equal_are_of_one_kind(keys):
    assert len(kinds_of(canonical_keys(list(keys)))) == 1


def test_keys_that_cannot_be_equal_are_of_different_kinds():
    kinds = [next(iter(kinds_of([key]))) for key in DIFFERENT]
    assert len(set(kinds)) == len(kinds)
    assert [pair for pair in combinations(kinds, 2) if fits(*pair)] == []
    assert not is_one_kind(frozenset(kinds))


def test_a_missing_part_fits_every_other():
    kinds = kinds_of([(1, "a"), (2, None), (None, "b")])
    assert len(kinds) == 3 and is_one_kind(kinds) and len(outlines(kinds)) == 1
    assert not is_one_kind(kinds_of([(1, "a"), (2, None), (3, 4)]))


def test_kinds_in_words():
    assert in_words(kinds_of([(1, "a"), "b", 3])) == "number, str, tuple of (number, str)"
    assert in_words(kinds_of([Place(1)])) == f"{__name__}.Place of (number)"


@pytest.mark.parametrize("key", [1, 2.5, True, "a", b"a", NOON, NOON.date(), NOON.time(), dt.timedelta(1)])
def test_columns_have_the_kind_of_their_values(key):
    column = pa.array([key, None])
    assert {column_kind(column.type)} == kinds_of([key])
    assert {column_kind(column.dictionary_encode().type)} == kinds_of([key])


def test_columns_with_and_without_a_zone_or_of_nothing():
    assert column_kind(pa.timestamp("us", "UTC")) == next(iter(kinds_of([NOON.replace(tzinfo=dt.UTC)])))
    assert fits(column_kind(pa.null()), column_kind(pa.string()))
    assert fits(column_kind(pa.large_string()), column_kind(pa.string()))
    assert not fits(column_kind(pa.int64()), column_kind(pa.string()))
