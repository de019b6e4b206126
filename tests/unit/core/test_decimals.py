"""Sums and means of decimals against Python's, up to the last digit and beyond."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.decimals import (
    carried,
    decimals_of,
    mean_of_one,
    means,
    parts_of,
    whole_numbers,
    wide_numbers,
)
from penstock.core.errors import ConfigError
from penstock.operators.columnar.grouped import grouped

MOST = 10**38 - 1


def column(numbers: list[int | None], scale: int) -> pa.Array:
    """Decimals of 38 digits, which begin somewhere in their buffer."""
    kind = pa.decimal128(38, scale)
    values = [None if it is None else Decimal(f"{it}E-{scale}") for it in numbers]
    return pa.concat_arrays([pa.array([None, Decimal(0)], kind), pa.array(values, kind)]).slice(2)


def random_numbers(rng: random.Random) -> list[int | None]:
    top = rng.choice([9, 10**9, 2**62, 2**64, 10**30, MOST])
    return [rng.choice([None, rng.randint(-top, top)]) for _ in range(rng.choice([0, 1, 5, 40]))]


@pytest.mark.parametrize("seed", range(40))
def test_sums_and_means(seed: int) -> None:
    rng = random.Random(seed)
    numbers, scale = random_numbers(rng), rng.choice([0, 2, 6, 9, 37, 38])
    array = column(numbers, scale)
    assert decimals_of(wide_numbers(array), array.type, np.asarray(array.is_valid())).equals(array)
    total = sum(it for it in numbers if it is not None)
    table = pa.table({"k": [1] * len(array), "d": array})
    parts = carried([np.array([part.sum()]) for part in parts_of(wide_numbers(array))])
    with localcontext() as exact:
        exact.prec = 99
        if abs(total) > MOST:
            with pytest.raises(ConfigError, match="the sum has more than 38 digits; cast its argument"):
                whole_numbers(parts, "the sum")
            with pytest.raises(ConfigError, match="more than 38 digits"):
                grouped(table, ["k"], [("d", "sum")])
        else:
            wanted = Decimal(total).scaleb(-scale)
            assert decimals_of(whole_numbers(parts, ""), array.type).to_pylist() == [wanted]
            some = any(it is not None for it in numbers)
            found = grouped(table, ["k"], [("d", "sum")]).column("d").to_pylist()
            assert found == [wanted if some else None][: len(numbers)]
        _check_means(array, np.array([rng.choice([1, 2, 3, 7, 10**6, 2**61]) for _ in numbers], np.int64))


def _check_means(array: pa.Array, counts: Any) -> None:
    scale = max(6, array.type.scale)
    step = Decimal(1).scaleb(-scale)
    pairs = list(zip(array.to_pylist(), counts.tolist(), strict=True))
    wanted = [None if it is None else (it / by).quantize(step, ROUND_HALF_UP) for it, by in pairs]
    if any(it is not None and abs(it.scaleb(scale)) > MOST for it in wanted):
        with pytest.raises(ConfigError, match="a mean of decimals"):
            means(array, counts)
        return
    found = means(array, counts)
    assert (found.type, found.to_pylist()) == (pa.decimal128(38, scale), wanted)
    assert [None if it is None else mean_of_one(it, by) for it, by in pairs] == wanted


def test_halves_go_away_from_zero() -> None:
    found = means(column([1, -1, 10**20 + 1, -(10**20) - 1], 6), np.array([2, 2, 2, 2]))
    assert [str(it) for it in found.to_pylist()] == [
        "0.000001",
        "-0.000001",
        "50000000000000.000001",
        "-50000000000000.000001",
    ]


def test_the_last_number_that_fits() -> None:
    for sign in (1, -1):
        parts = parts_of(wide_numbers(column([sign * MOST], 0)))
        assert decimals_of(whole_numbers(parts, ""), pa.decimal128(38, 0)).to_pylist() == [sign * MOST]
        parts[0] = parts[0] + sign
        with pytest.raises(ConfigError, match="38 digits"):
            whole_numbers(carried(parts), "")
