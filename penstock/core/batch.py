"""The unit of data: many records that travel together.

A :class:`Batch` has one of two layouts, *objects* (a list of Python values) or *columns* (an Arrow
record batch), and in both an int64 array of event times, or ``None`` when no record has one.  Row
functions work on objects, vectorised operators on columns; conversion happens only where one meets
the other, in :meth:`Batch.to_rows`.

Invariant: a batch is immutable once emitted.  Operators build new ones; slices share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.ids import MIN_TIME
from penstock.core.keys import canonical_keys, is_canonical
from penstock.core.row import Row
from penstock.core.sizing import rows_bytes, sampled_bytes
from penstock.core.views import without_views

Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]


class Batch:
    """Records in one of two layouts, their event times and, behind a ``key_by``, their keys.

    ``rows`` or ``columns`` is set, never both.  ``times`` is ``None`` or as long as the batch;
    :data:`~penstock.core.ids.MIN_TIME` marks a record without a timestamp.  Keys are a list beside
    ``rows``, or the names of key columns beside ``columns``.
    """

    __slots__ = ("_size", "columns", "key_columns", "keys", "rows", "times")

    def __init__(
        self,
        *,
        rows: list[Any] | None = None,
        columns: pa.RecordBatch | None = None,
        times: Times | None = None,
        keys: list[Any] | None = None,
        key_columns: tuple[str, ...] = (),
    ) -> None:
        self.rows = rows
        self.columns: Any = columns
        self.times = times
        self.keys = keys
        self.key_columns = key_columns
        self._size: int | None = None

    @classmethod
    def of_rows(
        cls, rows: list[Any], times: Sequence[int] | Times | None = None, keys: list[Any] | None = None
    ) -> Batch:
        """Batch of Python objects."""
        if times is not None and not isinstance(times, np.ndarray):
            times = np.array(times, dtype=np.int64)
        return cls(rows=rows, times=times, keys=keys)

    @classmethod
    def of_columns(
        cls, columns: pa.RecordBatch, times: Times | None = None, key_columns: tuple[str, ...] = ()
    ) -> Batch:
        """Batch of Arrow columns."""
        return cls(columns=columns, times=times, key_columns=key_columns)

    def __len__(self) -> int:
        return len(self.rows) if self.rows is not None else int(self.columns.num_rows)

    def __repr__(self) -> str:
        layout = "rows" if self.rows is not None else "columns"
        return f"Batch({len(self)} {layout})"

    @property
    def is_columnar(self) -> bool:
        """Whether the layout is columns."""
        return self.columns is not None

    def nbytes(self, measure: Callable[[Sequence[Any]], int] = rows_bytes) -> int:
        """What it occupies: exact for columns, an estimate for rows (``sizing.py``); made once."""
        if self._size is None:
            size = 0 if self.times is None else self.times.nbytes
            if self.columns is not None:
                size += int(self.columns.nbytes)
            else:
                size += measure(self.rows or ()) + (sampled_bytes(self.keys) if self.keys else 0)
            self._size = size
        return self._size

    def about_bytes(self) -> int:
        """The same by a few rows only, where one giant that is missed does no harm."""
        return self.nbytes() if self.columns is not None else sampled_bytes(self.rows or ())

    def to_rows(self) -> list[Any]:
        """The records as Python values; columns become :class:`Row` objects named after them."""
        if self.rows is not None:
            return self.rows
        names = self.columns.schema.names
        lists = [column.to_pylist() for column in self.columns.columns]
        return Row.many(names, zip(*lists, strict=True) if lists else iter(()))

    def key_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns that hold the keys."""
        assert self.columns is not None
        return tuple(self.columns.schema.field(name).type for name in self.key_columns)

    def key_list(self) -> list[Any]:
        """The key of each record; a tuple per record when there are several key columns."""
        if self.keys is not None:
            return self.keys
        if not self.key_columns:
            raise ValueError("the batch carries no keys: it did not pass a key_by")
        columns = [self.columns.column(name) for name in self.key_columns]
        lists = [column.to_pylist() for column in columns]
        if len(lists) > 1:
            return canonical_keys(list(zip(*lists, strict=True)))
        return lists[0] if is_canonical(columns[0]) else canonical_keys(lists[0])

    def time_list(self) -> list[int]:
        """The event time of each record, ``MIN_TIME`` where there is none."""
        return [MIN_TIME] * len(self) if self.times is None else self.times.tolist()

    def take(self, indices: Indices) -> Batch:
        """The records at ``indices``, in that order."""
        times = None if self.times is None else self.times[indices]
        if self.columns is not None:
            return Batch(columns=_taken(self.columns, indices), times=times, key_columns=self.key_columns)
        assert self.rows is not None
        picked = indices.tolist()
        rows = self.rows
        keys = self.keys
        return Batch(
            rows=[rows[i] for i in picked],
            times=times,
            keys=None if keys is None else [keys[i] for i in picked],
        )

    def slice(self, start: int, stop: int) -> Batch:
        """Records ``start`` up to ``stop``; columns and times share memory."""
        times = None if self.times is None else self.times[start:stop]
        if self.columns is not None:
            return Batch(
                columns=self.columns.slice(start, stop - start), times=times, key_columns=self.key_columns
            )
        assert self.rows is not None
        keys = None if self.keys is None else self.keys[start:stop]
        return Batch(rows=self.rows[start:stop], times=times, keys=keys)


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch of several with the same layout (and schema, if columnar)."""
    if len(batches) == 1:
        return batches[0]
    joined = _joined(batches)
    sizes = [batch._size for batch in batches if batch._size is not None]
    if len(sizes) == len(batches):
        joined._size = sum(sizes)
    return joined


def _joined(batches: Sequence[Batch]) -> Batch:
    times = None
    if any(b.times is not None for b in batches):
        times = np.concatenate(
            [np.full(len(b), MIN_TIME, np.int64) if b.times is None else b.times for b in batches]
        )
    first = batches[0]
    if first.columns is not None:
        merged = _joined_columns([b.columns for b in batches])
        return Batch(columns=merged, times=times, key_columns=first.key_columns)
    rows: list[Any] = []
    keys: list[Any] | None = [] if first.keys is not None else None
    for batch in batches:
        rows.extend(batch.rows or ())
        if keys is not None:
            keys.extend(batch.keys or ())
    return Batch(rows=rows, times=times, keys=keys)


def _taken(columns: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    try:
        return columns.take(pa.array(indices))
    except pa.ArrowNotImplementedError:
        plain = without_views(columns)
        if plain is columns:
            raise
        return plain.take(pa.array(indices))


def _joined_columns(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Dictionaries of all together may have more entries than the type that numbers them has values."""
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid:
        schema = batches[0].schema
        wide = pa.schema([field.with_type(_wide(field.type)) for field in schema], schema.metadata)
        if wide.equals(schema):
            raise
        return pa.concat_batches([columns.cast(wide) for columns in batches])


def _wide(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_dictionary(kind):
        return kind
    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)


def can_concat(left: Batch, right: Batch) -> bool:
    """Whether :func:`concat` may join the two."""
    if left.is_columnar != right.is_columnar:
        return False
    if left.columns is not None and right.columns is not None:
        same = bool(left.columns.schema.equals(right.columns.schema))
        return same and left.key_columns == right.key_columns
    return (left.keys is None) == (right.keys is None)
