"""Lists of rows are pickled by their values, and come back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.packed_rows import dumps_columns, dumps_packed, packed
from penstock.core.row import Row, RowKind
from penstock.core.unpickling import loads_stored

NAMED = [Row(a=n, b=str(n)) for n in range(6)]
PLAIN = [Row(n, [n]) for n in range(6)]


def changed() -> list[Any]:
    rows = [Row(a=n, b=n) for n in range(6)]
    rows[2]["a"] = 7
    return rows


PACKED = [NAMED, PLAIN, changed(), [(row, 5) for row in NAMED], [(row, None) for row in PLAIN]]
AS_THEY_ARE: list[Any] = [
    [],
    NAMED[:2],
    [*NAMED, *PLAIN],
    [*NAMED, None],
    [*NAMED, Row.of_kind(RowKind.DELETE, 1)],
    [(row, 1, 2) for row in NAMED],
    [(NAMED[0], 1), (1, NAMED[0])] * 3,
    [1, 2, 3, 4, 5],
    tuple(NAMED),
    {"rows": NAMED},
    None,
]


@pytest.mark.parametrize("value", PACKED)
def test_lists_of_rows_are_packed(value: Any) -> None:
    assert packed(value) is not value
    assert loads_stored(dumps_packed(value)) == value
    assert len(dumps_packed(value)) < len(dumps_packed([*value, None]))


@pytest.mark.parametrize("value", AS_THEY_ARE)
def test_everything_else_is_pickled_as_it_is(value: Any) -> None:
    assert packed(value) is value
    assert loads_stored(dumps_packed(value)) == value


def test_columns_are_packed_element_by_element() -> None:
    columns = {"key": ["a", "b"], "value": [NAMED, AS_THEY_ARE[3]]}
    assert loads_stored(dumps_columns(columns)) == columns


def test_rows_that_two_lists_share_are_written_once() -> None:
    one = len(dumps_columns({"value": [NAMED]}))
    assert len(dumps_columns({"value": [NAMED, NAMED]})) < 1.5 * one
