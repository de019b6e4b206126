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
