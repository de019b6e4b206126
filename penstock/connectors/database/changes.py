"""What is to be written: the rows that wait, the newest of each key.

Within one batch a key appears once, because PostgreSQL refuses to touch a row twice in one statement and
because it is less to send.  Rows are handed out in the order of their keys, so that two subtasks that
write at the same time lock in the same order and do not deadlock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Any

from penstock.connectors.database.dialect import Target
from penstock.connectors.database.rows import RowReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError

Tuples = list[tuple[Any, ...]]
_MAY_BE_NAN = frozenset({float, Decimal})
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows to insert or update, and rows to delete. No key is in both."""

    rows: Tuples
    gone: Tuples = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.gone)

    def first(self, count: int) -> Changed:
        """The first ``count`` changes, deletions counted first, as they are carried out."""
        return Changed(self.rows[: max(0, count - len(self.gone))], self.gone[:count])

    def at(self, index: int) -> tuple[Any, ...]:
        """One of the changes, in the same order."""
        return self.gone[index] if index < len(self.gone) else self.rows[index - len(self.gone)]


class Changes:
    """Collects. Without key columns every row stays, in the order it came."""

    def __init__(self, target: Target, reader: RowReader) -> None:
        self._target = target
        self._reader = reader
        self._key: Callable[[Any], Any] | None = None
        if target.keys:
            self._key = itemgetter(*target.positions(target.keys))
        self._version = None if target.newer is None else target.columns.index(target.newer)
        self._appended: Tuples = []
        self._rows: dict[Any, tuple[Any, ...]] = {}
        self._gone: dict[Any, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self._appended) + len(self._rows) + len(self._gone)

    def add(self, batch: Batch) -> None:
        """Take a batch."""
        rows, gone = self._reader.read(batch)
        if self._key is None:
            if gone is not None and any(gone):
                raise ConnectorError(
                    f"a deletion came for table {self._target.table!r}, which is only appended to: name the "
                    "columns that identify a row with set_key_columns()"
                )
            self._appended += rows
            return
        self._refuse_nan(rows)
        if gone is None and self._version is None and not self._gone:
            self._rows.update(zip(map(self._key, rows), rows, strict=True))
        else:
            for row, deleted in zip(rows, gone or [False] * len(rows), strict=True):
                self._put(self._key(row), row, deleted)

    def _refuse_nan(self, rows: Tuples) -> None:
        """NaN is equal to nothing here, but to itself in PostgreSQL: nobody can tell which row is newest."""
        for name in self._target.keys:
            place = self._target.columns.index(name)
            column = [row[place] for row in rows]
            if _MAY_BE_NAN.isdisjoint(map(type, column)):
                continue
            for row, value in zip(rows, column, strict=True):
                if value.is_nan() if type(value) is Decimal else type(value) is float and value != value:
                    shown = str(dict(zip(self._target.columns, row, strict=True)))[:_SHOWN]
                    raise ConnectorError(
                        f"a row for table {self._target.table!r} has NaN in its key column {name!r}, and no "
                        f"row is found by that: filter or mend such records before the sink. The row: {shown}"
                    )

    def _put(self, key: Any, row: tuple[Any, ...], deleted: bool) -> None:
        if self._version is not None:
            known = self._rows.get(key) or self._gone.get(key)
            if known is not None and _is_older(row[self._version], known[self._version]):
                return
        self._rows.pop(key, None)
        self._gone.pop(key, None)
        (self._gone if deleted else self._rows)[key] = row

    def keys(self) -> frozenset[Any]:
        """The keys that wait; none in a table without a key."""
        return frozenset(self._rows) | frozenset(self._gone)

    def take(self) -> Changed:
        """Everything that waits, which does not wait any more."""
        taken = Changed(self._appended)
        if self._key is not None:
            taken = Changed(_by_key(self._rows), _by_key(self._gone))
        self._appended, self._rows, self._gone = [], {}, {}
        return taken


def _is_older(version: Any, known: Any) -> bool:
    return known is not None and (version is None or version < known)


def _by_key(rows: dict[Any, tuple[Any, ...]]) -> Tuples:
    try:
        return [rows[key] for key in sorted(rows)]
    except TypeError:  # a None among them, or types that do not compare
        return [rows[key] for key in sorted(rows, key=repr)]
