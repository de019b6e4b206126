"""Changes applied: the table that is left of a stream of changes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from penstock.core.changes import CHANGE, DELETE, UPDATE_BEFORE
from penstock.core.errors import JobFailedError

Record = dict[str, Any]
_NAN = object()


class FinalTable:
    """Rows by their key; without a key, each as often as it is there."""

    def __init__(self, key: tuple[str, ...] | None) -> None:
        self._key = key
        self._rows: dict[Any, list[Record]] = {}

    def apply(self, row: Record) -> None:
        """Take a change: a row with its kind."""
        kind = row.pop(CHANGE)
        names = row if self._key is None else self._key
        place = tuple(_comparable(row[name]) for name in names)
        if kind in (DELETE, UPDATE_BEFORE):
            self._remove(place, row)
        elif self._key is not None:
            self._rows[place] = [row]
        else:
            self._rows.setdefault(place, []).append(row)

    def _remove(self, place: Any, row: Record) -> None:
        rows = self._rows.get(place)
        if rows is None:
            if self._key is None:
                raise JobFailedError(f"a row is taken back that is not there: {row!r}")
            return
        rows.pop()
        if not rows:
            del self._rows[place]

    def rows(self) -> list[Record]:
        """What is there."""
        return [row for rows in self._rows.values() for row in rows]


def applied(changes: Iterable[Record], key: tuple[str, ...] | None) -> list[Record]:
    """The rows that are left when all changes are made; ``key``: that of an upsert."""
    table = FinalTable(key)
    for change in changes:
        table.apply(change)
    return table.rows()


def _comparable(value: Any) -> Any:
    """A value by which equal ones are found: NaN is equal to NaN, lists are compared."""
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, list | tuple):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple((key, _comparable(part)) for key, part in value.items())
    return value
