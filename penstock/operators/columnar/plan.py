"""What both operators of a columnar aggregation agree on: keys, partial columns, merging, finishing.

A *partial table* has the key columns, ``__rows`` and one column per partial.  Merging partial tables is
associative and commutative (up to rounding of doubles), so records may be folded before the exchange,
in a compaction, at firing, or all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch, Times
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, KeyError_, TimestampError
from penstock.core.ids import MIN_TIME
from penstock.core.keys import canonical_column
from penstock.operators.columnar.aggregates import ROWS, Aggregate, Partial
from penstock.operators.columnar.expressions import field_of
from penstock.operators.columnar.grouped import grouped
from penstock.state.chunks import PANE

WINDOW_START = "window_start"
WINDOW_END = "window_end"
_TOUCHED = "__touched"


class AggregatePlan:
    """Key columns and aggregates of one windowed aggregation. Immutable."""

    def __init__(
        self, keys: Sequence[str], aggregates: Sequence[Aggregate], null_is_key: bool = False
    ) -> None:
        self.keys = tuple(keys)
        self._refuses_null = len(self.keys) == 1 and not null_is_key
        self.aggregates = tuple(aggregates)
        self.partials: tuple[Partial, ...] = tuple(
            dict.fromkeys(partial for aggregate in aggregates for partial in aggregate.partials)
        )
        self.columns = (*self.keys, ROWS, *(partial.name for partial in self.partials))
        needed = [name for partial in self.partials for name in partial.source.names]
        self.inputs = tuple(dict.fromkeys([*self.keys, *needed]))
        self._folds = [(ROWS, "sum"), *((partial.name, partial.fold.merge) for partial in self.partials)]
        self.check_names(self.keys, self.aggregates)
        if not self.keys:
            raise ConfigError("agg needs a stream keyed by named columns")

    @staticmethod
    def check_names(keys: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        """Refuse keys and aggregates that do not make a table of results."""
        if not aggregates:
            raise ConfigError("agg needs at least one aggregate, such as Count()")
        names = [*keys, WINDOW_START, WINDOW_END, *(a.name for a in aggregates)]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ConfigError(
                f"the result of agg would have several columns called {', '.join(double)}; "
                "give the aggregates other aliases"
            )
        reserved = [name for name in keys if name.startswith("__")]
        if reserved:
            raise ConfigError(
                f"the key column {reserved[0]!r} must not begin with two underscores; rename it"
            )

    def raw_partials(self, columns: pa.RecordBatch) -> dict[str, Any]:
        """One partial row per record, as named columns: raw input in the shape of partials."""
        self._require(columns, self.inputs)
        named: dict[str, Any] = {name: self._key(columns.column(name), name) for name in self.keys}
        named[ROWS] = pa.array(np.ones(columns.num_rows, np.int64))
        for partial in self.partials:
            named[partial.name] = partial.of_raw(partial.source.of_columns(columns))
        return named

    def require_partials(self, columns: pa.RecordBatch) -> None:
        """Refuse a batch that did not pass the pre-aggregation of this plan."""
        self._require(columns, [*self.columns, PANE])

    def _require(self, columns: pa.RecordBatch, needed: Sequence[str]) -> None:
        known = columns.schema.names
        for name in needed:
            if name not in known:
                raise ConfigError(
                    f"the stream has no column {name!r}, which key_by or agg asks for; "
                    f"its columns: {', '.join(known)}"
                )

    def _key(self, values: pa.Array, name: str) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if values.null_count and self._refuses_null:
            raise KeyError_(
                f"key column {name!r} has a null; filter such records out or give them a key before key_by",
                code=Code.KEY_NULL,
            )
        return canonical_column(values)

    def merge(
        self, tables: Sequence[pa.Table], by: Sequence[str] | None = None, latest: str | None = None
    ) -> pa.Table:
        """One partial table with each key (or each distinct ``by``) once; of ``latest`` the maximum."""
        folds = self._folds if latest is None else [*self._folds, (latest, "max")]
        return grouped(pa.concat_tables(tables), by or self.keys, folds)

    def merge_touched(self, rest: Sequence[pa.Table], touched: Sequence[pa.Table]) -> pa.Table:
        """Like :meth:`merge` of both, but only the keys that occur in ``touched``."""
        fresh = pa.concat_tables(touched)
        parts = [_flagged(fresh, 1)]
        for table in rest:
            for name in self.keys:
                table = table.filter(pc.is_in(table.column(name), fresh.column(name).combine_chunks()))
            parts.append(_flagged(table, 0))
        merged = grouped(pa.concat_tables(parts), self.keys, [*self._folds, (_TOUCHED, "max")])
        return merged.filter(pc.equal(merged.column(_TOUCHED), 1)).drop_columns([_TOUCHED])

    def finish(self, merged: pa.Table, start: int, end: int) -> pa.Table:
        """The result of one window from its fully merged partials."""
        count = merged.num_rows
        columns: dict[str, Any] = {name: merged.column(name) for name in self.keys}
        columns[WINDOW_START] = pa.array(np.full(count, start, np.int64))
        columns[WINDOW_END] = pa.array(np.full(count, end, np.int64))
        for aggregate in self.aggregates:
            columns[aggregate.name] = aggregate.finish(merged)
        return pa.table(columns)


def _flagged(table: pa.Table, flag: int) -> pa.Table:
    return table.append_column(_TOUCHED, pa.array(np.full(table.num_rows, flag, np.int8)))


def columns_of(batch: Batch, names: Sequence[str]) -> pa.RecordBatch:
    """The batch's columns; if it has Python objects, columns made of their fields ``names``."""
    if batch.rows is None:
        return batch.columns
    named: dict[str, Any] = {}
    for name in names:
        values = [field_of(row, name) for row in batch.rows]
        try:
            named[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
            raise ConfigError(
                f"the values of field {name!r} are no column of one type ({e}); make them one type in the "
                "step before agg, or use aggregate() with an AggregateFunction"
            ) from e
    return pa.RecordBatch.from_pydict(named)


def event_times(batch: Batch) -> Times:
    """The batch's event times; an error if a record has none."""
    times = batch.times
    if times is None or (len(times) and int(times.min()) == MIN_TIME):
        raise TimestampError(
            "event-time windows need a timestamp on every record, and a record has none; call "
            "assign_timestamps_and_watermarks before key_by",
            code=Code.NO_TIMESTAMP,
        )
    return times
