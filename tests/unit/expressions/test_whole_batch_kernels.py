"""Kernels of whole batches give what one value at a time gives: with nulls, in slices, at the edges."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import TypeMismatchError
from penstock.expressions.face import Expression, col, lit
from penstock.expressions.program import Projection
from penstock.expressions.text_kernels import Remembered

LETTERS = ["a", "B", "/", "/", "ß", "İ", "é", "/€", " ", "&id=", ""]


def texts(seed: int, letters: list[str]) -> pa.Array:
    chance = random.Random(seed)
    found = [
        None if chance.random() < 0.2 else "".join(chance.choices(letters, k=chance.randrange(9)))
        for _ in range(200)
    ]
    return pa.array(found, pa.string())


def numbers(seed: int, kind: pa.DataType) -> pa.Array:
    chance, bits = random.Random(seed), kind.bit_width
    edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1, 1]
    found = [
        None
        if chance.random() < 0.2
        else chance.choice(edges)
        if chance.random() < 0.2
        else chance.randrange(-100, 100)
        for _ in range(200)
    ]
    return pa.array(found, kind)


def computed(expression: Expression, values: pa.Array) -> list[Any]:
    batch = pa.record_batch({"x": values})
    found = Projection(batch.schema, {"y": expression.node}).apply(batch)
    found.validate(full=True)
    return list(found.column(0).to_pylist())


def cuts(values: pa.Array) -> list[pa.Array]:
    """The array, pieces of it, one value, none, nothing but nulls."""
    return [values, values.slice(3, 120), values.slice(199, 1), values.slice(0, 0), pa.nulls(5, values.type)]


def _each(simple: Callable[[Any], Any], values: pa.Array) -> list[Any]:
    return [None if value is None else simple(value) for value in values.to_pylist()]


def part(text: str, at: int) -> str | None:
    parts = text.split("/")
    return parts[at] if at < len(parts) else None


TEXTS: dict[str, tuple[Expression, Callable[[str], Any]]] = {
    "first": (col("x").split_index("/", 0), lambda text: part(text, 0)),
    "second": (col("x").split_index("/", 1), lambda text: part(text, 1)),
    "fourth": (col("x").split_index("/", 3), lambda text: part(text, 3)),
    "longer separator": (
        col("x").split_index("&id=", 1),
        lambda text: text.split("&id=")[1] if "&id=" in text else None,
    ),
    "length": (col("x").char_length, len),
    "lower": (col("x").lower_case, lambda text: "".join(map(_simple_lower, text))),
    "extract": (col("x").regexp_extract("(B|/)(.*)", 2), lambda text: _behind(text)),
}


def _simple_lower(letter: str) -> str:
    """Arrow lowers letter by letter."""
    return letter.lower() if len(letter.lower()) == 1 else "i"


def _behind(text: str) -> str | None:
    at = min((place for place in (text.find("B"), text.find("/")) if place >= 0), default=None)
    return None if at is None else text[at + 1 :]


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("letters", [LETTERS, ["a", "B", "/", "&id="]], ids=["any", "ascii"])
def test_texts(what: str, letters: list[str]) -> None:
    expression, simple = TEXTS[what]
    all_values = [values for seed in range(5) for values in cuts(texts(seed, letters))]
    found = [computed(expression, values) for values in all_values]
    assert found == [_each(simple, values) for values in all_values]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("divisor", [1, -1, 7, -7, 100])
def test_remainders(kind: pa.DataType, divisor: int) -> None:
    def simple(number: int) -> int:
        return abs(number) % abs(divisor) * (-1 if number < 0 else 1)

    all_values = cuts(numbers(divisor, kind))
    found = [computed(col("x") % lit(divisor, kind), values) for values in all_values]
    assert found == [_each(simple, values) for values in all_values]


@pytest.mark.parametrize("factor", ["0.908", "-12.5", "0.000", "123456789.01", "9" * 17 + ".9"])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_decimals_times_integers(factor: str, kind: pa.DataType) -> None:
    all_values = cuts(numbers(len(factor), kind))
    wanted = [_each(partial(_exactly, factor), values) for values in all_values]
    assert [computed(lit(Decimal(factor)) * col("x"), values) for values in all_values] == wanted
    assert [computed(col("x") * lit(Decimal(factor)), values) for values in all_values] == wanted


def _exactly(factor: str, number: int) -> Decimal:
    digits = len(factor.partition(".")[2])
    unscaled = int(factor.replace(".", "")) * number
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -digits))


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss", "HH:mm:ss.SSS"])
def test_times_as_texts(pattern: str) -> None:
    start = dt.datetime(1969, 12, 31, 23, 58, 59, 1000)  # noqa: DTZ001
    moments = [start + dt.timedelta(milliseconds=997 * step // 3) for step in range(800)]
    forms = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss.SSS": "%S.%f", "ss": "%S"}
    form = pattern
    for letters, directive in forms.items():
        form = form.replace(letters, directive)
    wanted = [moment.strftime(form)[: -3 if "SSS" in pattern else None] for moment in moments]
    assert computed(col("x").date_format(pattern), pa.array(moments, pa.timestamp("us"))) == wanted


def test_what_is_remembered_is_bounded() -> None:
    asked: list[str] = []

    def compute(text: str) -> int:
        asked.append(text)
        return len(text)

    remembered = Remembered(compute)
    for number in range(100_000):
        assert remembered(str(number)) == len(str(number))
    assert len(remembered._known) <= 32_768
    assert remembered("99999") == 5 and len(asked) == 100_000
    assert [remembered("x" * 1000) for _ in range(2)] == [1000, 1000] and len(asked) == 100_002


def test_division_by_zero_still_ends_the_job() -> None:
    with pytest.raises(TypeMismatchError, match="divide by zero"):
        computed(col("x") % 0, pa.array([1, 2]))
