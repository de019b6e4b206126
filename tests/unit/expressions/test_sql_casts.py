"""Casts that SQL has and Arrow has not, or has otherwise."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.expressions.casts import cast_kernel

TEXT, LONG, DOUBLE = pa.string(), pa.int64(), pa.float64()
MILLIS, MOMENT = pa.timestamp("ms"), pa.timestamp("ms", "UTC")


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


FIT: list[tuple[list[Any], pa.DataType, pa.DataType, list[Any]]] = [
    ([2**60, -(2**63), None], LONG, DOUBLE, [2.0**60, -(2.0**63), None]),
    ([1, None], LONG, pa.decimal128(3, 2), [Decimal("1.00"), None]),
    ([True, None], pa.bool_(), pa.decimal128(3, 1), [Decimal("1.0"), None]),
    ([0.125, -0.125], DOUBLE, pa.decimal128(10, 2), [Decimal("0.13"), Decimal("-0.13")]),
    ([Decimal("0.0000001"), None], pa.decimal128(10, 7), TEXT, ["0.0000001", None]),
    (["1.235", "+5", " 1e2", None], TEXT, pa.decimal128(5, 2), [Decimal("1.24"), 5, 100, None]),
    (["+5", "-1.9", "7 ", None], TEXT, pa.int32(), [5, -1, 7, None]),
    ([" .5", "-1.", "1e-2"], TEXT, pa.decimal128(5, 2), [Decimal("0.50"), -1, Decimal("0.01")]),
    (["2026-01-31 12:00:00.1239", "2026-01-31"], TEXT, MILLIS,
     [at(2026, 1, 31, 12, 0, 0, 123_000).replace(tzinfo=None), at(2026, 1, 31).replace(tzinfo=None)]),
    (["2026-01-31 12:00:00", "2026-01-31T12:00:00+02:00", "2026-01-31"], TEXT, MOMENT,
     [at(2026, 1, 31, 12), at(2026, 1, 31, 10), at(2026, 1, 31)]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "given", "wanted", "found"), FIT, ids=[f"{it[1]}-{it[2]}" for it in FIT])
def test_a_cast_gives(values: list[Any], given: pa.DataType, wanted: pa.DataType, found: list[Any]) -> None:
    kernel, _ = cast_kernel(given, wanted, False)
    assert kernel(pa.array(values, given)).to_pylist() == found


MISFIT: list[tuple[Any, pa.DataType, pa.DataType]] = [
    (2**63 - 1, LONG, pa.decimal128(38, 30)),  # overflows 128 bits, which Arrow does not see
    (Decimal(10) ** 37, pa.decimal128(38, 0), pa.decimal128(38, 10)),
    (12, LONG, pa.decimal128(3, 2)),
    ("NaN", TEXT, pa.decimal128(5, 2)),
    ("9999.999", TEXT, pa.decimal128(5, 2)),
    ("1_000", TEXT, pa.decimal128(10, 2)),
    ("\u0663", TEXT, pa.decimal128(10, 2)),
    ("Infinity", TEXT, pa.decimal128(10, 2)),
    ("1" * 5_000, TEXT, pa.decimal128(10, 2)),
    ("9" * 20, TEXT, LONG),
    ("1" * 5_000, TEXT, LONG),
    ("1x", TEXT, LONG),
    ("+300", TEXT, pa.int8()),
    ("soon", TEXT, MILLIS),
]


@pytest.mark.parametrize(("value", "given", "wanted"), MISFIT, ids=[f"{it[0]!s:.9}-{it[2]}" for it in MISFIT])
def test_what_does_not_fit_is_an_error_or_null(value: Any, given: pa.DataType, wanted: pa.DataType) -> None:
    strict, fails = cast_kernel(given, wanted, False)
    with pytest.raises(pa.ArrowInvalid):
        strict(pa.array([value, None], given))
    tolerant, never = cast_kernel(given, wanted, True)
    assert tolerant(pa.array([value, None], given)).to_pylist() == [None, None]
    assert fails and not never


def test_what_fits_is_kept_beside_what_does_not() -> None:
    """Value by value, as Arrow has them: Python has no nanoseconds."""
    kind = pa.timestamp("ns")
    tolerant, _ = cast_kernel(TEXT, kind, True)
    found = tolerant(pa.array(["2026-01-31 12:00:00.123456789", "soon", None]))
    assert found.cast(LONG).to_pylist() == [1_769_860_800_123_456_789, None, None]
