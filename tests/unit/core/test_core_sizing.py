"""What rows are taken to occupy: near the truth for all shapes, and no giant goes unseen."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.core.batch import Batch, concat
from penstock.core.row import Row
from penstock.core.sizing import deep_bytes, rows_bytes


@dataclass
class Point:
    name: str
    x: int


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Hostile:
    """Refuses to be measured."""

    def __sizeof__(self) -> int:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


LONG = 50_000

MAKERS: dict[str, Callable[[int, int], Any]] = {
    "text": lambda n, i: f"{i:0{n}}",
    "bytes": lambda n, i: b"x" * n,
    "tuple": lambda n, i: (i, f"{i:0{n}}", 1.5),
    "Row": lambda n, i: Row(i, f"{i:0{n}}"),
    "named Row": lambda n, i: Row(id=i, text=f"{i:0{n}}"),
    "dict": lambda n, i: {"id": i, "text": f"{i:0{n}}"},
    "list of numbers": lambda n, i: [float(i)] * (n // 8),
    "dataclass": lambda n, i: Point(f"{i:0{n}}", i),
    "slots": lambda n, i: Slotted(f"{i:0{n}}"),
    "nested": lambda n, i: (i, {"deep": [(f"{i:0{n}}",)]}),
    "array": lambda n, i: np.zeros(n // 8),
    "array of objects": lambda n, i: np.array([f"{i:0{n // 5}}", None, *["x" * (n // 5)] * 4], object),
    "column of pandas": lambda n, i: pd.Series([f"{i:0{n // 5}}", None, *["x" * (n // 5)] * 4], dtype=object),
    "frame of pandas": lambda n, i: pd.DataFrame({"text": [f"{i:0{n}}"], "n": [i]}),
    "deque": lambda n, i: deque([f"{i:0{n}}"]),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_large_rows_count_what_they_are(kind: str) -> None:
    rows = [MAKERS[kind](LONG, i) for i in range(100)]
    assert 0.9 * 100 * LONG < rows_bytes(rows) < 5 * 100 * LONG
    assert Batch.of_rows(rows).nbytes() >= rows_bytes(rows)


@pytest.mark.parametrize("kind", ["text", "bytes", "tuple", "Row", "named Row", "dict", "dataclass"])
@pytest.mark.parametrize("place", [0, 1, 499, 777, 999])
def test_one_giant_among_small_rows_is_seen_wherever_it_is(kind: str, place: int) -> None:
    rows = [MAKERS[kind](10, i) for i in range(1000)]
    small = rows_bytes(rows)
    rows[place] = MAKERS[kind](5_000_000, place)
    assert 5_000_000 <= rows_bytes(rows) < 5_500_000 + 2 * small


def test_a_giant_is_seen_among_rows_that_lack_the_field() -> None:
    rows: list[Any] = [(i, None if i % 3 else "x") for i in range(1000)]
    rows[501] = (501, "x" * 5_000_000)
    assert 5_000_000 <= rows_bytes(rows) < 6_000_000
    mixed: list[Any] = [{"a": "x"} if i % 2 else {"b": 1} for i in range(1000)]
    mixed[502] = {"a": "x" * 5_000_000}
    assert rows_bytes(mixed) >= 5_000_000


def test_sizes_that_vary_are_counted_row_by_row() -> None:
    rows = [("k", "x" * (i * i)) for i in range(300)]
    truth = sum(map(deep_bytes, rows))
    assert 0.8 * truth < rows_bytes(rows) < 1.2 * truth


def test_wide_characters_count_as_wide() -> None:
    rows = ["a"] * 1000
    rows[700] = "好" * 1_000_000
    assert rows_bytes(rows) >= 2_000_000


@pytest.mark.parametrize(
    "value", [None, True, 5, 2**200, 1.5, timedelta(1), object(), int, len, deque([1, 2])]
)
def test_anything_can_be_measured(value: Any) -> None:
    assert 0 <= rows_bytes([value] * 20) < 20 * 4096


def test_what_refuses_to_be_measured_counts_something() -> None:
    assert rows_bytes([Hostile() for _ in range(20)]) >= 20 * 64


def test_a_row_that_holds_itself_can_be_measured() -> None:
    row: list[Any] = ["x" * 1000]
    row.append(row)
    assert 1000 < deep_bytes(row) < 100_000


def test_wide_containers_are_judged_by_some_of_their_elements() -> None:
    value = [f"{i:07}" for i in range(100_000)]
    truth = sys.getsizeof(value) + sum(map(sys.getsizeof, value))
    assert 0.9 * truth < deep_bytes(value) < 1.1 * truth


def test_keys_and_times_count_too() -> None:
    bare = Batch.of_rows([1] * 100).nbytes()
    keyed = Batch.of_rows([1] * 100, list(range(100)), ["k" * 1000 for _ in range(100)]).nbytes()
    assert keyed > bare + 100_000 + 800


def test_a_batch_of_parts_is_as_large_as_its_parts() -> None:
    parts = [Batch.of_rows(["x" * n] * 10) for n in (10, 1000)]
    sizes = [part.nbytes() for part in parts]
    assert concat(parts).nbytes() == sum(sizes)
    columns = pa.record_batch({"a": ["x" * 1000]})
    assert Batch.of_columns(columns).nbytes() == columns.nbytes


def test_no_rows_are_nothing() -> None:
    assert rows_bytes([]) == 0 and Batch.of_rows([]).nbytes() == 0


class Detached:
    def __init__(self) -> None:
        self.__dict__["text"] = "x"

    @property
    def text(self) -> str:
        raise RuntimeError("its session is closed")


class Forbidding:
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Endless(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("who knows")


@pytest.mark.parametrize("odd", [Detached, Forbidding, Endless])
def test_rows_that_refuse_to_be_looked_into_fail_nothing(odd: type) -> None:
    assert rows_bytes([odd() for _ in range(20)]) > 0
    assert rows_bytes([Row(1), *(odd() for _ in range(20))]) > 0
