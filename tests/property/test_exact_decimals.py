"""Decimals of every length, at the edges of their types: rounded and cast as exact arithmetic has it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.expressions.face import Expression, col
from penstock.expressions.program import Projection

SEEDS = 120
EXACT = Context(prec=200)
MOST = 38
INTEGERS = {pa.int8(): 8, pa.int32(): 32, pa.int64(): 64}


def values(rng: random.Random, kind: pa.Decimal128Type) -> list[Decimal | None]:
    """The edges, what is next to a rounding, and some in between."""
    edge = 10**kind.precision - 1
    half = 5 * 10 ** max(0, kind.scale - 1)
    small = [rng.randint(-edge, edge) // 10 ** rng.randint(0, kind.precision) for _ in range(6)]
    whole = {0, 1, -1, edge, -edge, edge // 2, half, half - 1, -half, *small}
    return [None, *(Decimal(number).scaleb(-kind.scale, EXACT) for number in whole if abs(number) <= edge)]


def rounded(value: Decimal, digits: int, way: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits, EXACT), way, EXACT)


def fits(value: Decimal, kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return value.scaleb(kind.scale, EXACT).copy_abs() < 10**kind.precision
    bits = INTEGERS[kind]
    return -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


Case = tuple[Expression, Callable[[Decimal], Decimal]]


def cases(rng: random.Random, kind: pa.Decimal128Type) -> Iterator[Case]:
    """Expressions over ``a``, and what they are worth."""
    digits = rng.randint(-kind.precision - 1, kind.precision + 1)
    if digits >= kind.scale:
        yield col("a").round(digits), lambda value: value
    else:
        yield col("a").round(digits), lambda value: rounded(value, digits, ROUND_HALF_UP)
    yield col("a").floor(), lambda value: rounded(value, 0, ROUND_FLOOR)
    yield col("a").ceil(), lambda value: rounded(value, 0, ROUND_CEILING)
    yield col("a").abs, lambda value: value.copy_abs()
    yield -col("a"), lambda value: value.copy_negate()
    yield col("a").sign, lambda value: Decimal((value > 0) - (value < 0))
    precision = rng.randint(1, MOST)
    other = pa.decimal128(precision, rng.randint(0, precision))
    if other.scale < kind.scale:
        yield col("a").cast(other), lambda value: rounded(value, other.scale, ROUND_HALF_UP)
    else:
        yield col("a").cast(other), lambda value: value
    integer = rng.choice(list(INTEGERS))
    yield col("a").cast(integer), lambda value: rounded(value, 0, ROUND_DOWN)


@pytest.mark.parametrize("part", range(3))
def test_decimals_are_what_exact_arithmetic_says(part: int) -> None:
    refused = 0
    for seed in range(part, SEEDS, 3):
        rng = random.Random(seed)
        precision = rng.choice([rng.randint(1, MOST), MOST])
        kind = pa.decimal128(precision, rng.choice([0, precision, rng.randint(0, precision)]))
        given = values(rng, kind)
        for expression, worth in cases(rng, kind):
            projection = Projection(pa.schema({"a": kind}), {"r": expression.node})
            for value in given:
                said = f"seed {seed}: {expression} of {value} as {kind}"
                batch = pa.record_batch({"a": pa.array([value], kind)})
                expected = None if value is None else worth(value)
                try:
                    column = projection.apply(batch).column(0)
                except PenstockError:
                    refused += 1
                    gives = projection.schema.field("r").type
                    assert expected is not None and not fits(expected, gives), said
                    continue
                found = column.to_pylist()[0]
                assert found == expected, f"{said}: {found}, not {expected}"
                assert expected is None or fits(expected, column.type), said
            batch = pa.record_batch({"a": pa.array(given, kind)})
            together = [None if value is None else worth(value) for value in given]
            gives = projection.schema.field("r").type
            if all(value is None or fits(value, gives) for value in together):
                assert projection.apply(batch).column(0).to_pylist() == together
    assert refused
