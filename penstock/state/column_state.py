"""Keyed state that an operator keeps in arrays of its own, as part of snapshots.

Each row in a snapshot has the hash of its key in the column ``$key``, which says to which key group it
belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.core.codes import KEY_HASH
from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.state.chunks import KEY_GROUP, ChunkStore, FrozenChunks, groups_of

_FILE_ROWS, _SMALL_ROWS = 65536, 16384
MakeTable = Callable[[], pa.Table]


class Kept(Protocol):
    """What has state in arrays."""

    def freeze(self) -> MakeTable:
        """What is there now, as a table with the column ``$key``, made later and in any thread."""
        ...

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take rows of a snapshot."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class ColumnState(ChunkStore):
    """State of a :class:`Kept`; register it with ``ctx.keyed.register_chunks``."""

    def __init__(self, name: str, kept: Kept, columns: Sequence[str], max_parallelism: int) -> None:
        super().__init__(name, (KEY_HASH,), (KEY_HASH, *columns), pa.concat_tables, max_parallelism)
        self._kept = kept

    def clear(self) -> None:
        self._kept.clear()

    def freeze(self) -> FrozenChunks:
        return FrozenColumns(self.name, self._kept.freeze(), self._max_parallelism)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            missing = [name for name in self._columns if name not in batch.schema.names]
            if missing:
                raise SnapshotError(
                    f"state {self.name!r} in the snapshot has no {missing[0]!r}: keys, columns and "
                    "aggregates cannot be added to a running step; give the step another uid to begin anew",
                    code=Code.STATE_CHANGED,
                )
            if batch.num_rows:
                self._kept.restore(batch)


class FrozenColumns(FrozenChunks):
    """What a :class:`ColumnState` held at one moment."""

    def __init__(self, name: str, make: MakeTable, max_parallelism: int) -> None:
        super().__init__(name, (KEY_HASH,), max_parallelism, [])
        self._make: MakeTable | None = make

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        table = None if self._make is None else self._make()
        if table is None or not table.num_rows:
            return
        groups = groups_of(table, self._keys, self._max_parallelism)
        labelled = table.add_column(0, KEY_GROUP, pa.array(groups, pa.int32()))
        yield from _of_size(labelled)

    def release(self) -> None:
        self._make = None


def _of_size(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """All rows, in batches of a good size: large ones as they are, small ones together."""
    small: list[pa.RecordBatch] = []
    for batch in table.to_batches(_FILE_ROWS):
        if batch.num_rows < _SMALL_ROWS:
            small.append(batch)
            if sum(it.num_rows for it in small) < _FILE_ROWS:
                continue
            batch = None
        if small:
            yield pa.concat_batches(small)
            small.clear()
        if batch is not None:
            yield batch
    if small:
        yield pa.concat_batches(small)
