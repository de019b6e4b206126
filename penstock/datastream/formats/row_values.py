"""The values of a row, by place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def row_values(row: Any) -> Iterable[Any]:
    """The row itself, unless it is a dictionary, which would pass its keys off as values."""
    if isinstance(row, Mapping):
        raise TypeError("the record is a dictionary and the schema writes rows; make a Row(**record) of it")
    values: Iterable[Any] = row
    return values
