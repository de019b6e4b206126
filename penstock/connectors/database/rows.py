"""From the records of a batch to the rows that wait to be written, the newest of each key.

Records may be Arrow columns, dicts, named or unnamed rows, named tuples, dataclasses, or tuples and lists
in the order of the columns.  What has names is read by name, everything else by position.

Within one batch a key appears once, because PostgreSQL refuses to touch a row twice in one statement and
because it is less to send.  Rows are handed out in the order of their keys, so that two subtasks that write
at the same time lock in the same order and do not deadlock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from decimal import Decimal
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.database.dialect import Target
from penstock.core.batch import Batch
from penstock.core.durations import Instant
from penstock.core.errors import ConnectorError
from penstock.core.row import Row, RowKind

_PLAIN = frozenset({int, str, float, bool, bytes, type(None), dt.date, dt.time, dt.timedelta, Decimal})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_KEPT = frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER})

DeleteWhen = str | Callable[[Any], bool] | None
Tuples = list[tuple[Any, ...]]
_MAY_BE_NAN = frozenset({float, Decimal})
_SHOWN = 300


class RowReader:
    """Makes tuples. ``adapters`` are the dialect's."""

    def __init__(
        self, columns: Sequence[str], adapters: Mapping[type, Callable[[Any], Any]], delete_when: DeleteWhen
    ) -> None:
        self._columns = tuple(columns)
        self._adapters = dict(adapters)
        self._delete_when = delete_when

    def read(self, batch: Batch) -> tuple[list[tuple[Any, ...]], list[bool] | None]:
        """The rows of a batch, and which of them are deletions (``None``: none is).

        The "before" half of an update is left out: the "after" half overwrites it.
        """
        if batch.columns is not None:
            rows = self._from_columns(batch.columns)
            return rows, self._deletions(batch, None)
        assert batch.rows is not None
        records = batch.rows
        kinds = None
        types = set(map(type, records))
        if Row in types:
            if len(types) == 1:
                kinds = list(map(Row.get_row_kind, records))
            else:
                kinds = [r.get_row_kind() if isinstance(r, Row) else RowKind.INSERT for r in records]
            if RowKind.UPDATE_BEFORE in kinds:
                kept = [i for i, kind in enumerate(kinds) if kind is not RowKind.UPDATE_BEFORE]
                records, kinds = [records[i] for i in kept], [kinds[i] for i in kept]
                batch = Batch.of_rows(records)
        tuples = self._from_records(records) if records else []
        return self.adapted(tuples), self._deletions(batch, kinds)

    def _deletions(self, batch: Batch, kinds: list[RowKind] | None) -> list[bool] | None:
        when = self._delete_when
        if when is None:
            if kinds is None or set(kinds) <= _KEPT:
                return None
            return [kind not in _KEPT for kind in kinds]
        if not isinstance(when, str):
            return [bool(when(record)) for record in batch.to_rows()]
        if batch.columns is not None:
            return [bool(value) for value in _column(batch.columns, when).to_pylist()]
        return [bool(_field(record, when)) for record in batch.rows or ()]

    def _from_columns(self, columns: pa.RecordBatch) -> list[tuple[Any, ...]]:
        names = columns.schema.names if self._is_unnamed(columns.schema.names) else self._columns
        lists = [_column(columns, name).to_pylist() for name in names]
        return list(zip(*map(self._adapt, lists), strict=True))

    def _from_records(self, records: list[Any]) -> list[tuple[Any, ...]]:
        types = set(map(type, records))
        fields = set(map(Row.field_names, records)) if types == {Row} else ()
        if len(types) > 1 or len(fields) > 1:
            return [self._from_records([record])[0] for record in records]
        try:
            read = self._reader(records[0])
            if read == self._by_position and set(map(len, records)) == {len(self._columns)}:
                return list(map(tuple, records))
            return list(map(read, records))
        except (KeyError, AttributeError, IndexError) as e:
            raise ConnectorError(
                f"a record lacks the column {e.args[0] if e.args else '?'!s}: the sink writes "
                f"{', '.join(self._columns)}. Name the columns with set_columns(), or map the records first."
            ) from e

    def _reader(self, example: Any) -> Callable[[Any], tuple[Any, ...]]:
        columns = self._columns
        if isinstance(example, dict):
            return _tupled(itemgetter(*columns), len(columns))
        if isinstance(example, Row):
            return self._row_reader(example.field_names())
        if is_dataclass(example) or set(columns) <= set(getattr(example, "_fields", ())):
            return _tupled(attrgetter(*columns), len(columns))
        if isinstance(example, tuple | list):
            return self._by_position
        if len(columns) == 1:
            return lambda value: (value,)
        raise ConnectorError(
            f"the database sink cannot take a {type(example).__name__} apart into the columns "
            f"{', '.join(columns)}: map the records to dicts, rows, tuples or dataclasses first"
        )

    def _row_reader(self, fields: tuple[str, ...] | None) -> Callable[[Row], tuple[Any, ...]]:
        if fields is None or fields == self._columns or self._is_unnamed(fields):
            return self._by_position
        missing = set(self._columns).difference(fields)
        if missing:
            raise KeyError(", ".join(sorted(missing)))
        pick = _tupled(itemgetter(*map(fields.index, self._columns)), len(self._columns))
        return lambda row: pick(tuple(row))

    def _is_unnamed(self, fields: Sequence[str]) -> bool:
        """Whether these are the names that fields get which have none."""
        return (
            len(fields) == len(self._columns)
            and all(name == f"f{i}" for i, name in enumerate(fields))
            and not set(fields) & set(self._columns)
        )

    def _by_position(self, values: Sequence[Any] | Row) -> tuple[Any, ...]:
        if len(values) != len(self._columns):
            raise ConnectorError(
                f"a record has {len(values)} values, but the sink writes the {len(self._columns)} columns "
                f"{', '.join(self._columns)}; name as many columns with set_columns() as records have values"
            )
        return tuple(values)

    def adapted(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The same rows with every value as the driver takes it."""
        columns = list(zip(*rows, strict=True))
        done = list(map(self._adapt, columns))
        if all(new is old for new, old in zip(done, columns, strict=True)):
            return rows
        return list(zip(*done, strict=True))

    def _adapt(self, values: Sequence[Any]) -> Sequence[Any]:
        """A column as the driver takes it; the same object if nothing had to change."""
        wanted = {kind: self._adapter(kind) for kind in set(map(type, values)) - _PLAIN}
        wanted = {kind: adapter for kind, adapter in wanted.items() if adapter is not None}
        if not wanted:
            return values
        return [adapter(v) if (adapter := wanted.get(type(v))) else v for v in values]

    def _adapter(self, kind: type) -> Callable[[Any], Any] | None:
        if kind in self._adapters:
            return self._adapters[kind]
        if issubclass(kind, np.generic):
            return lambda value: value.item()
        if issubclass(kind, dt.datetime):  # pandas has one of its own
            plain = self._adapters.get(dt.datetime, lambda value: value)
            return lambda value: plain(value.to_pydatetime() if hasattr(value, "to_pydatetime") else value)
        if kind is Row:
            as_tuple = self._adapters.get(tuple, tuple)
            return lambda value: as_tuple(tuple(value))
        return _instant if kind is Instant else None


def _instant(value: Instant) -> dt.datetime:
    moment = _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return moment.replace(tzinfo=None)


def _column(columns: pa.RecordBatch, name: str) -> pa.Array:
    if name not in columns.schema.names:
        raise ConnectorError(
            f"the records have no column {name!r} for the database sink; theirs are: "
            f"{', '.join(columns.schema.names)}"
        )
    column = columns.column(name)
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column


def _field(record: Any, name: str) -> Any:
    if isinstance(record, dict):
        return record.get(name)
    return record[name] if isinstance(record, Row) else getattr(record, name)


def _tupled(getter: Callable[[Any], Any], width: int) -> Callable[[Any], tuple[Any, ...]]:
    """``itemgetter`` and ``attrgetter`` of one name give the bare value."""
    return getter if width > 1 else lambda record: (getter(record),)


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
