"""Decimals of many digits: types by Flink's rules, and values that are Python's, rounded once."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError, PenstockError
from penstock.expressions.face import Expression, col, lit
from penstock.expressions.program import Projection

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def computed(expression: Expression, **columns: pa.Array) -> pa.Array:
    batch = pa.RecordBatch.from_pydict(columns)
    return Projection(batch.schema, {"value": expression.node}).apply(batch).column(0)


def random_decimals(rng: random.Random) -> pa.Array:
    precision = rng.randint(1, 38)
    scale, digits = rng.randint(0, precision), rng.randint(1, precision)
    numbers = [rng.randint(1, 10**digits - 1) * rng.choice([-1, 1]) for _ in range(3)]
    return pa.array([None, *(Decimal(f"{it}E-{scale}") for it in numbers)], pa.decimal128(precision, scale))


@pytest.mark.parametrize("sign", OPERATIONS)
def test_whatever_digits_there_are(sign: str) -> None:
    fitted = 0
    for seed in range(120):
        rng = random.Random(f"{sign} {seed}")
        left, right = random_decimals(rng), random_decimals(rng)
        with localcontext() as exact:
            exact.prec = 200
            pairs = list(zip(left.to_pylist(), right.to_pylist(), strict=True))
            whole = [None if a is None or b is None else OPERATIONS[sign](a, b) for a, b in pairs]
            try:
                found = computed(OPERATIONS[sign](col("a"), col("b")), a=left, b=right)
            except PenstockError:
                assert max(abs(it) for it in whole if it is not None) > 1, f"{seed}: small numbers fit"
                continue
            step = Decimal(1).scaleb(-found.type.scale)
            assert found.to_pylist() == [
                None if it is None else it.quantize(step, ROUND_HALF_UP) for it in whole
            ], seed
        fitted += 1
    assert fitted > 60


@pytest.mark.parametrize(
    ("sign", "left", "right", "gives"),
    [
        ("+", (38, 2), (38, 2), (38, 2)),
        ("+", (38, 10), (38, 2), (38, 6)),
        ("*", (38, 37), (38, 37), (38, 35)),
        ("*", (38, 3), (2, 2), (38, 5)),
        ("/", (38, 2), (19, 0), (38, 6)),
        ("*", (10, 2), (5, 3), (16, 5)),
    ],
)
def test_types(sign: str, left: Any, right: Any, gives: Any) -> None:
    one, other = (pa.nulls(1, pa.decimal128(*kind)) for kind in (left, right))
    assert computed(OPERATIONS[sign](col("a"), col("b")), a=one, b=other).type == pa.decimal128(*gives)


def test_what_has_too_many_digits_is_an_error() -> None:
    large = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))
    for sign in "+*":
        with pytest.raises(PenstockError, match=rf"a \{sign} b"):
            computed(OPERATIONS[sign](col("a"), col("b")), a=large, b=large)
    fractions = pa.array([Decimal("9." + "9" * 37)], pa.decimal128(38, 37))
    assert computed(col("a") * col("a"), a=fractions).to_pylist() == [Decimal("100." + "0" * 35)]
    with pytest.raises(PenstockError, match="divide by zero"):
        computed(col("a") / (col("a") - col("a")), a=large)


def test_values_are_not_rounded_before_they_are_compared() -> None:
    sums = pa.array([Decimal("1.00")], pa.decimal128(38, 2))
    assert computed(col("a") < lit(Decimal("1.000001")), a=sums).to_pylist() == [True]
    with pytest.raises(ConfigError, match="45 digits, and 38 are possible"):
        computed(col("a") < lit(Decimal("1.000000001")), a=sums)
    assert computed(col("a").floor(), a=pa.array([Decimal(7)], pa.decimal128(38, 0))).to_pylist() == [7]


@pytest.mark.parametrize(
    ("rounded", "gives", "kind"),
    [
        (col("a").round(1), "100000000.0", (10, 1)),
        (col("a").round(), "100000000", (9, 0)),
        (col("a").round(-1), "100000000", (9, 0)),
        (col("a").round(-8), "100000000", (9, 0)),
        (col("a").round(-9), "0", (9, 0)),
        (col("a").round(-40), "0", (9, 0)),
        (col("a").round(2), "99999999.99", (10, 2)),
        (col("a").round(7), "99999999.99", (10, 2)),
        (col("a").ceil(), "100000000", (9, 0)),
        (col("a").cast(pa.decimal128(10, 1)), "100000000.0", (10, 1)),
        (col("a").sign, "1", (1, 0)),
    ],
)
def test_what_is_rounded_up_may_have_a_digit_more(rounded: Any, gives: str, kind: tuple[int, int]) -> None:
    most = Decimal("99999999.99")
    array = pa.array([most, None, -most], pa.decimal128(10, 2))
    found = computed(rounded, a=array)
    least = Decimal("-99999999") if "ceil" in str(rounded).lower() else -Decimal(gives)
    assert found.to_pylist() == [Decimal(gives), None, least] and found.type == pa.decimal128(*kind)
    assert computed(rounded, a=array[:0]).type == found.type


def test_the_longest_decimals_are_rounded() -> None:
    array = pa.array([Decimal("9" * 36 + ".99")], pa.decimal128(38, 2))
    for rounded in (col("a").round(), col("a").ceil(), col("a").cast(pa.decimal128(38, 0))):
        assert computed(rounded, a=array).to_pylist() == [Decimal(10**36)]
    with pytest.raises(PenstockError, match="does not fit"):
        computed(col("a").cast(pa.decimal128(36, 0)), a=array)
    assert computed(col("a").try_cast(pa.decimal128(36, 0)), a=array).to_pylist() == [None]


def test_constants_are_rounded_like_columns() -> None:
    array = pa.array([0], pa.int64())
    nines = lit(Decimal("99.9"))
    for rounded in (nines.round(), nines.ceil(), nines.cast(pa.decimal128(3, 0))):
        assert computed(rounded + col("a"), a=array).to_pylist() == [100]
