"""Event times of records: from a function of the user, or from a column.

:class:`TimestampExtractor` turns a batch into its int64 array of event times, in one numpy operation
where the times are a column, in one loop where the user gave a function.
"""

from __future__ import annotations

import datetime as dt
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, TimestampError

_UNITS_PER_MS = {"us": 1_000, "ns": 1_000_000}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLI = dt.timedelta(milliseconds=1)


class TimestampAssigner(ABC):
    """Says when a record happened. Called once per record, on the task's thread; must be pure."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since 1970-01-01 UTC.

        ``record_timestamp`` is what the source or an earlier assigner said, ``MIN_TIME`` if nobody
        did.  The classic mistake is to return seconds.
        """


Extract = Callable[[Any, int], int]


class TimestampExtractor:
    """Computes the event times of batches. Built from an assigner, a function or a column's name."""

    def __init__(self, extract: Extract | None = None, column: str | None = None) -> None:
        self._extract = extract
        self.column = column
        """The column that times are read from, if they are."""

    @classmethod
    def of(cls, assigner: TimestampAssigner | Extract) -> TimestampExtractor:
        """An extractor that calls ``assigner`` for each record."""
        extract = getattr(assigner, "extract_timestamp", assigner)
        if not callable(extract):
            raise ConfigError(
                f"{assigner!r} is no timestamp assigner; pass a TimestampAssigner or a function of "
                "(value, record_timestamp), or use with_timestamp_column(name)"
            )
        try:
            inspect.signature(extract).bind(None, 0)
        except TypeError:
            raise ConfigError(
                f"the timestamp assigner {assigner!r} must take two arguments, (value, record_timestamp)"
            ) from None
        except ValueError:
            pass  # a builtin without a signature: the first record will tell
        return cls(extract=extract)

    @classmethod
    def of_column(cls, name: str) -> TimestampExtractor:
        """An extractor that reads column (or row field) ``name``: ms, a timestamp or a date."""
        return cls(column=name)

    @property
    def is_column(self) -> bool:
        """Whether times are read from a column, which PyFlink knows in tables alone."""
        return self.column is not None

    def times(self, batch: Batch) -> Times:
        """The event time of each record of ``batch``."""
        if self._extract is not None:
            extract = self._extract
            rows = batch.to_rows()
            found = [extract(row, time) for row, time in zip(rows, batch.time_list(), strict=True)]
            return _to_times(found, rows)
        assert self.column is not None
        if batch.columns is None:
            rows = batch.to_rows()
            return _to_times([row[self.column] for row in rows], rows)
        if self.column not in batch.columns.schema.names:
            raise TimestampError(
                f"there is no column {self.column!r} to take event time from; the columns are "
                f"{', '.join(batch.columns.schema.names)}",
                code=Code.TIMESTAMP_VALUE,
            )
        return column_times(batch.columns.column(self.column), self.column)


def column_times(column: pa.Array, name: str) -> Times:
    """Event times in milliseconds from a column of whole numbers, timestamps or dates."""
    if column.null_count:
        raise TimestampError(
            f"column {name!r} gives event time but is null in {column.null_count} of {len(column)} "
            "records; filter those records out before assigning timestamps",
            code=Code.TIMESTAMP_VALUE,
        )
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if pa.types.is_date32(kind):
        days: Times = column.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
        return days * 86_400_000
    if not (pa.types.is_timestamp(kind) or pa.types.is_date64(kind)):
        raise TimestampError(
            f"column {name!r} of type {kind} cannot give event time; it must hold whole milliseconds, "
            "timestamps or dates",
            code=Code.TIMESTAMP_VALUE,
        )
    ticks: Times = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    unit = getattr(kind, "unit", "ms")
    if unit == "s":
        return ticks * 1000
    return ticks if unit == "ms" else ticks // _UNITS_PER_MS[unit]


def _to_times(found: list[Any], rows: list[Any]) -> Times:
    times = np.array(found) if found else np.empty(0, np.int64)
    if times.dtype == np.int64:
        return times
    for value, row in zip(found, rows, strict=True):
        if isinstance(value, bool) or not (isinstance(value, dt.datetime) or _is_finite(value)):
            raise TimestampError(
                f"event time must be a number of milliseconds or a datetime, but for the record "
                f"{row!r:.200} it is {value!r:.80} of type {type(value).__name__}",
                code=Code.TIMESTAMP_VALUE,
            )
    return np.array([_millis(value) for value in found], dtype=np.int64)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)


def _millis(value: float | dt.datetime) -> int:
    if isinstance(value, dt.datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH) // _MILLI
    return int(value)  # without its fraction, as PyFlink takes it
