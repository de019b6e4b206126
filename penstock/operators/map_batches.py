"""``map_batches``: the user's function sees whole batches, as Arrow, pandas, polars or a list.

Which time a result gets: with ``timestamp_column``, the value of that column of the result;
otherwise the record's own time if the function returned as many rows as it got; otherwise the
latest time of the batch, which is never late but may be later than the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import iscoroutine
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.row import Row
from penstock.event_time.timestamp_assigners import column_times
from penstock.operators.outflow import pieces
from penstock.operators.user_function import FunctionOperator

_WANTED = {
    "arrow": "a pyarrow.RecordBatch or Table",
    "pandas": "a pandas.DataFrame",
    "polars": "a polars.DataFrame, or a pyarrow.RecordBatch or Table",
    "rows": "a list",
}
FORMATS = tuple(_WANTED)


class MapBatchesOperator(FunctionOperator):
    """Calls ``fn`` once per batch; it returns the same kind of thing, ``None``, or an iterator of them.

    Rows are turned into columns for it where needed: fields by name for named rows and dicts, else
    ``f0``, ``f1`` and so on.  How many records a batch holds is up to the load: never rely on it.
    """

    def __init__(
        self, fn: Callable[[Any], Any], format: str = "arrow", timestamp_column: str | None = None
    ) -> None:
        super().__init__(fn, keyed=False)
        if format not in FORMATS:
            raise ConfigError(f"map_batches knows the formats {', '.join(FORMATS)}; got {format!r}")
        if not callable(fn):
            raise ConfigError(f"map_batches needs a callable, got {type(fn).__name__}")
        if format == "rows" and timestamp_column is not None:
            raise ConfigError("map_batches takes a timestamp_column only with a columnar format, not 'rows'")
        self._fn = fn
        self._format = format
        self._timestamp_column = timestamp_column

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not len(batch):
            return
        self.work(self._results(batch))

    def _results(self, batch: Batch) -> Iterator[None]:
        result = self._fn(self._offer(batch))
        parts = result if isinstance(result, Iterator) else iter((result,))
        results = (self._take_back(part) for part in parts if part is not None)
        fresh, after = next(results, None), next(results, None)
        alone = after is None
        while fresh is not None:
            if len(fresh):
                fresh.times = self._times(fresh, batch, alone)
                for piece in pieces(fresh, self.ctx):
                    self.ctx.out.emit(piece)
                    yield
            fresh, after = after, next(results, None)

    def _offer(self, batch: Batch) -> Any:
        if self._format == "rows":
            return list(batch.to_rows())  # the list is the function's own, other branches may have the batch
        columns = batch.columns if batch.columns is not None else columns_of(batch.to_rows())
        if self._format == "pandas":
            return columns.to_pandas()
        if self._format == "polars":
            return _polars().from_arrow(columns)
        return columns

    def _take_back(self, part: Any) -> Batch:
        if self._format == "rows" and isinstance(part, list):
            return Batch(rows=list(part))  # the function may fill the same list again
        if self._format == "pandas" and hasattr(part, "columns"):
            return Batch(columns=_from_pandas(part))
        if self._format == "polars" and isinstance(part, _polars().DataFrame):
            part = part.to_arrow()
        if self._format in ("arrow", "polars"):
            if isinstance(part, pa.Table):
                return Batch(columns=_one_batch(part))
            if isinstance(part, pa.RecordBatch):
                return Batch(columns=part)
        if iscoroutine(part):
            part.close()
        raise ConfigError(
            f"map_batches with format {self._format!r} got a {type(part).__name__} from its function; return "
            f"{_WANTED[self._format]}, None, or an iterator of such"
        )

    def _times(self, fresh: Batch, source: Batch, alone: bool) -> Times | None:
        if self._timestamp_column is not None:
            return _result_times(fresh.columns, self._timestamp_column)
        if source.times is None or (alone and len(fresh) == len(source)):
            return source.times
        return np.full(len(fresh), source.times.max(), dtype=np.int64)


def columns_of(rows: list[Any]) -> pa.RecordBatch:
    """Rows of one shape as columns; raises a clear error if Arrow cannot type them."""
    first = rows[0]
    try:
        if isinstance(first, dict):
            return pa.RecordBatch.from_pylist(rows)
        if isinstance(first, Row | tuple | list):
            names = list(getattr(first, "_fields", None) or [f"f{i}" for i in range(len(first))])
            return pa.RecordBatch.from_arrays([pa.array(c) for c in zip(*rows, strict=True)], names=names)
        return pa.RecordBatch.from_arrays([pa.array(rows)], names=["f0"])
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as e:
        raise ConfigError(
            f"the records cannot be turned into columns ({e}); map them to tuples, Rows or dicts of one "
            "shape first, or use format='rows'"
        ) from e


def _from_pandas(frame: Any) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise ConfigError(
            f"the DataFrame that the function of map_batches returned cannot be turned into columns "
            f"({' '.join(map(str, error.args))}); give each column its own name and values of one type, or "
            "use format='rows'"
        ) from error


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _result_times(columns: pa.RecordBatch, name: str) -> Times:
    if name not in columns.schema.names:
        raise TimestampError(
            f"map_batches was told to take times from column {name!r}, but its function returned only "
            f"{', '.join(columns.schema.names)}"
        )
    return column_times(columns.column(name), name)


def _polars() -> Any:
    import polars

    return polars
