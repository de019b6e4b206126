"""Columnar keyed state: immutable Arrow tables in panes of event time.

A :class:`ChunkStore` only ever appends tables and replaces several by their merger, so freezing it means
copying references: the cost depends on the number of chunks, which compaction bounds, not on keys.

After a restore event time starts over, yet windows that had fired before the snapshot must not fire again
for keys that nothing new arrives for, and windows that were cleaned up must not get old contents back.
So each row in a snapshot says how far the watermark had come when the snapshot was taken (``fired_to``);
old subtasks may have been at different times, hence it is a column.  Restored rows are kept apart from
new ones until the watermark has come that far again; from then on the two cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.dictionaries import plain_table
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import combine_columns, hash_nullable, key_groups
from penstock.state.column_types import Unfit, fitted, learned, retyped

KEY_GROUP = "__key_group"
PANE = "__pane"
FIRED_TO = "__fired_to"
_DIVIDED = b"penstock.divided"
"""In the metadata of the schema: what the rows are divided for."""

Mask = npt.NDArray[np.bool_]
Merge = Callable[[Sequence[pa.Table]], pa.Table]
"""Joins tables with repeated keys into one in which each key occurs once."""

_FAN_IN = 16
_MERGE_ROWS = 65536
_FILE_ROWS = 65536


class Chunk(NamedTuple):
    """Some rows of a pane; ``fired_to`` is the watermark their windows have already seen."""

    table: pa.Table
    fired_to: int


class _Pane:
    """Chunks of one pane: a merged part, and above it levels of ever larger recent chunks."""

    __slots__ = ("held", "levels", "merged")

    def __init__(self) -> None:
        self.merged: pa.Table | None = None
        self.levels: list[list[pa.Table]] = [[]]
        self.held: list[Chunk] = []

    def tables(self) -> list[pa.Table]:
        """Everything but the held chunks."""
        found = [] if self.merged is None else [self.merged]
        return found + [table for level in reversed(self.levels) for table in level]

    def append(self, table: pa.Table, merge: Merge) -> None:
        self.levels[0].append(table)
        recent = sum(each.num_rows for level in self.levels for each in level)
        if recent > max(_MERGE_ROWS, 0 if self.merged is None else self.merged.num_rows):
            self.compact(merge)
        elif len(self.levels[0]) >= _FAN_IN:
            self._lift(merge)

    def _lift(self, merge: Merge) -> None:
        """Merge full levels upwards: a row is merged once a level, however small the chunks come."""
        for depth, level in enumerate(self.levels):
            if len(level) < _FAN_IN:
                return
            if depth + 1 == len(self.levels):
                self.levels.append([])
            self.levels[depth + 1].append(merge(level))
            self.levels[depth] = []

    def compact(self, merge: Merge) -> None:
        tables = self.tables()
        if len(tables) > 1 or (tables and self.merged is None):
            self.merged = merge(tables)
            self.levels = [[]]

    def keep(self, wanted: Callable[[pa.Table], Mask]) -> bool:
        """Forget rows, wherever they are; whether any are left."""

        def some(tables: Iterable[pa.Table]) -> list[pa.Table]:
            kept = (table.filter(pa.array(wanted(table))) for table in tables)
            return [table for table in kept if table.num_rows]

        self.merged = next(iter(some([] if self.merged is None else [self.merged])), None)
        self.levels = [some(level) for level in self.levels]
        self.held = [Chunk(table, chunk.fired_to) for chunk in self.held for table in some([chunk.table])]
        return bool(self.held or self.tables())

    def change(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change all tables."""
        self.merged = None if self.merged is None else change(self.merged)
        self.levels = [list(map(change, level)) for level in self.levels]
        self.held = [Chunk(change(chunk.table), chunk.fired_to) for chunk in self.held]

    def settle(self, watermark: int, merge: Merge) -> None:
        held, self.held = self.held, []
        for chunk in held:
            if chunk.fired_to > watermark:
                self.held.append(chunk)
            else:
                self.append(chunk.table, merge)


class ChunkStore:
    """Rows by pane and key, as an operator's state; register it with ``ctx.keyed.register_chunks``.

    The operator appends, reads and drops on the task's thread, and calls :meth:`advance` after it acted on
    a watermark.  The trap: rows appended between two calls must be dealt with according to the watermark
    of the first before anything else happens, because a snapshot will say that they were.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        columns: Sequence[str],
        merge: Merge,
        max_parallelism: int,
        divided: str = "",
    ) -> None:
        """``divided`` says what the rows are folded and put into panes for, where nothing else would fit."""
        self.name = name
        self._divided = divided
        self.watermark: int = MIN_TIME
        self.keys = tuple(keys)
        self._columns = list(columns)
        self._merge = merge
        self._max_parallelism = max_parallelism
        self._schema: pa.Schema | None = None
        self._promised = False
        """Whether somebody said what the types are; then values may lose of their precision."""
        self._panes: dict[int, _Pane] = {}
        self._holding: set[int] = set()

    def panes(self) -> list[int]:
        """The panes that hold rows, sorted."""
        return sorted(self._panes)

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of all tables, as far as they are known; another object once a type is."""
        return self._schema

    def conform(self, table: pa.Table) -> pa.Table:
        """The table with the columns, order and types of this store; the first table sets the types.

        A column that had nothing but nulls so far takes the type of the first values.  There are no
        dictionaries: those of many batches may not go into one.
        """
        table = plain_table(table.select(self._columns))
        if self._schema is None:
            self._schema = table.schema
        if table.schema.equals(self._schema):
            return table
        self._learn(learned(self._schema, table.schema))
        try:
            return fitted(table, self._schema, self.keys, self._promised)
        except Unfit as error:
            name = error.column
            changed = f"from {self._schema.field(name).type} to {table.schema.field(name).type}"
            raise ConfigError(
                f"a column of the stream changed its type: {name!r} {changed}, which state {self.name!r} "
                f"cannot take ({error}); cast the column to one type before agg, or give the step "
                "another uid to start anew",
                code=Code.STATE_CHANGED,
            ) from error

    def _learn(self, schema: pa.Schema) -> None:
        """Take over types that were not known before."""
        if schema.equals(self._schema):
            return
        self._schema = schema
        self._retype(lambda table: retyped(table, schema))

    def _retype(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change all tables; no row becomes another one."""
        for pane in self._panes.values():
            pane.change(change)

    def append(self, pane: int, table: pa.Table) -> None:
        """Add rows (conforming ones) to a pane."""
        if pane not in self._panes:
            self._panes[pane] = _Pane()
        self._panes[pane].append(table, self._merge)

    def chunks(self, pane: int) -> list[Chunk]:
        """All rows of a pane; a key may occur in several chunks, and several times in one."""
        found = self._panes.get(pane)
        if found is None:
            return []
        return [Chunk(table, MIN_TIME) for table in found.tables()] + found.held

    def compact(self, pane: int) -> None:
        """Merge a pane now, because it is going to be read several times."""
        if pane in self._panes:
            self._panes[pane].compact(self._merge)

    def keep(self, pane: int, wanted: Callable[[pa.Table], Mask]) -> None:
        """Forget the rows of a pane that are not wanted."""
        found = self._panes[pane]
        if not found.keep(wanted):
            self.drop(pane)
        elif not found.held:
            self._holding.discard(pane)

    def drop(self, pane: int) -> None:
        """Forget a pane; a missing one is fine."""
        self._panes.pop(pane, None)
        self._holding.discard(pane)

    def clear(self) -> None:
        """Forget all panes, and how far event time has come."""
        self._panes.clear()
        self._holding.clear()
        self.watermark = MIN_TIME

    def advance(self, watermark: int) -> None:
        """All windows up to ``watermark`` have fired: held rows of that age become ordinary ones."""
        self.watermark = watermark
        for start in list(self._holding):
            pane = self._panes[start]
            pane.settle(watermark, self._merge)
            if not pane.held:
                self._holding.discard(start)

    def freeze(self) -> FrozenChunks:
        """What is there now, by reference."""
        seen = self.watermark
        parts = [
            (start, Chunk(chunk.table, max(chunk.fired_to, seen)))
            for start in self._panes
            for chunk in self.chunks(start)
        ]
        return FrozenChunks(self.name, self.keys, self._max_parallelism, parts, self._divided)

    def groups(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The key group that each row of a restored batch has today."""
        return groups_of(pa.Table.from_batches([batch]), self.keys, self._max_parallelism)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take the rows of a snapshot, already reduced to this subtask's key groups."""
        tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        for table in tables:
            self._check_divided(table)
            missing = [name for name in self._columns if name not in table.schema.names]
            if missing:
                raise SnapshotError(
                    f"state {self.name!r} in the snapshot has no {missing[0]!r}: key columns and aggregates "
                    "cannot be added to a running window; give the step another uid to start it empty",
                    code=Code.STATE_CHANGED,
                )
        if not tables:
            return
        for table in tables:
            self.conform(table)  # so that the types are known, wherever a column had values
        whole = pa.concat_tables([self._with_marks(table) for table in tables])
        for start, rows in split(whole, PANE):
            pane = self._panes.setdefault(start, _Pane())
            pane.held += [Chunk(self._taken(start, part), mark) for mark, part in split(rows, FIRED_TO)]
            self._holding.add(start)
        self.advance(self.watermark)

    def _check_divided(self, table: pa.Table) -> None:
        before = (table.schema.metadata or {}).get(_DIVIDED, b"").decode()
        if before and self._divided and before != self._divided:
            raise SnapshotError(
                f"state {self.name!r} in the snapshot is made for {before}, and the step is for "
                f"{self._divided} now: what is there cannot be divided anew. Leave its windows, or frames, "
                "as they were, or give the step another uid to start it empty",
                code=Code.STATE_CHANGED,
            )

    def _taken(self, pane: int, rows: pa.Table) -> pa.Table:
        """Restored rows of a pane as they are kept."""
        return rows.select(self._columns)

    def _with_marks(self, table: pa.Table) -> pa.Table:
        marked = self.conform(table)
        for name in (PANE, FIRED_TO):
            marked = marked.append_column(name, table.column(name))
        return marked


def groups_of(table: pa.Table, keys: Sequence[str], max_parallelism: int) -> npt.NDArray[np.int64]:
    """The key group of each row."""
    columns = [table.column(name).combine_chunks() for name in keys]
    hashes = hash_nullable(columns[0]) if len(columns) == 1 else combine_columns(columns)
    return key_groups(hashes, max_parallelism)


class FrozenChunks:
    """What a store held at one moment. Read by the snapshot writer in any thread."""

    def __init__(
        self,
        name: str,
        keys: tuple[str, ...],
        max_parallelism: int,
        parts: list[tuple[int, Chunk]],
        divided: str = "",
    ) -> None:
        self.name = name
        self.parts = parts
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._divided = divided

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows with ``__key_group`` first, then ``__pane``, ``__fired_to`` and the store's columns."""
        gathered: list[pa.Table] = []
        rows = 0
        for pane, chunk in self.parts:
            gathered.append(self._labelled(pane, chunk))
            rows += chunk.table.num_rows
            if rows >= _FILE_ROWS:
                yield from _batches(gathered)
                gathered, rows = [], 0
        yield from _batches(gathered)

    def _labelled(self, pane: int, chunk: Chunk) -> pa.Table:
        table = chunk.table
        groups = groups_of(table, self._keys, self._max_parallelism)
        table = table.add_column(0, FIRED_TO, _constant(chunk.fired_to, table.num_rows))
        table = table.add_column(0, PANE, _constant(pane, table.num_rows))
        table = table.add_column(0, KEY_GROUP, pa.array(groups, pa.int32()))
        known = {name: text for name, text in (table.schema.metadata or {}).items() if name != _DIVIDED}
        return table.replace_schema_metadata(known | ({_DIVIDED: self._divided} if self._divided else {}))

    def release(self) -> None:
        """The writer is done (or was given up): let the memory go."""
        self.parts = []


class CarriedChunks(FrozenChunks):
    """Restored batches of a store that nobody registered: they go into the next snapshot as they came."""

    def __init__(self, name: str, batches: Sequence[pa.RecordBatch]) -> None:
        super().__init__(name, (), 0, [])
        self._carried = tuple(batches)

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._carried

    def release(self) -> None:
        self._carried = ()


def split(table: pa.Table, by: str, unit: int = 1) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each distinct value of the int64 column ``by``, values ascending.

    ``unit`` divides the distance between any two values: few steps apart, they sort much faster.
    """
    values: npt.NDArray[np.int64] = table.column(by).to_numpy()
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    if low == high:
        yield low, table
        return
    steps = values if high - low >= unit << 16 else ((values - low) // unit).astype(np.uint16)
    order = np.argsort(steps, kind="stable")
    values = values[order]
    table = table.take(pa.array(order))
    bounds = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    for start, stop in pairwise(bounds):
        yield int(values[start]), table.slice(start, stop - start)


def _batches(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    if not tables:
        return []
    batches: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches(_FILE_ROWS)
    return batches


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int64))
