"""One side of a regular join: its rows, by the number of their key, until they expire."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.core.codes import KEY_HASH, Codes, plain_column, row_hashes
from penstock.operators.changes.matching import matched
from penstock.state.buckets import Buckets
from penstock.state.column_state import MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.key_index import Rows, grown
from penstock.state.row_log import RowLog

SINCE = "$since"
"""When a row came, in milliseconds of the clock."""


class JoinSide:
    """Rows of one side.  The keys belong to both sides; ``names`` are those of this one."""

    def __init__(self, schema: pa.Schema, keys: GroupKeys, names: tuple[str, ...], retracts: bool) -> None:
        self.log = RowLog(schema)
        self.lists = Buckets()
        self._keys = keys
        self._names = names
        self._retracts = retracts
        self._groups: Rows = np.zeros(0, np.int64)
        self._hashes: Codes = np.zeros(0, np.int64)
        self._since: Codes = np.zeros(0, np.int64)

    def locate(self, rows: pa.RecordBatch) -> Rows:
        """The number of each row's key."""
        renamed = rows.select([KEY_HASH, *self._names]).rename_columns([KEY_HASH, *self._keys.schema.names])
        groups = self._keys.locate(renamed)
        return groups

    def hashes(self, rows: pa.RecordBatch) -> Codes:
        """A hash of all values of each row."""
        return row_hashes([plain_column(column) for column in rows.columns])

    def add(self, rows: pa.RecordBatch, groups: Rows, since: int | Codes) -> None:
        """Keep rows."""
        positions = self.log.append(rows)
        count = self.log.count
        self._groups, self._since = grown(self._groups, count), grown(self._since, count)
        self._groups[positions], self._since[positions] = groups, since
        if self._retracts:
            self._hashes = grown(self._hashes, count)
            self._hashes[positions] = self.hashes(rows)
        self.lists.add(groups, positions)

    def take_back(self, groups: Rows, hashes: Codes) -> None:
        """Forget one row for each of these hashes; ``groups`` are their keys, each once."""
        _, positions = self.lists.of(groups)
        gone = matched(self._hashes[positions], hashes)
        self.lists.keep(groups, ~gone)
        self.log.kill(positions[gone])

    def expire(self, before: int) -> None:
        """Forget rows that came before a time."""
        alive = self.log.alive()
        old = alive[self._since[alive] < before]
        if len(old):
            groups = np.unique(self._groups[old])
            _, positions = self.lists.of(groups)
            self.lists.keep(groups, self._since[positions] >= before)
            self.log.kill(old)

    def tidy(self) -> None:
        """Let rows go that are dead, if they are many."""
        count = len(self._keys)
        self.lists.grow(count)
        if self.log.is_sparse:
            kept, moved = self.log.tidy()
            self._groups, self._since = self._groups[kept], self._since[kept]
            self._hashes = self._hashes[kept] if self._retracts else self._hashes
            self.lists.tidy(np.arange(count), moved)
        elif self.lists.is_sparse:
            self.lists.tidy(np.arange(count))

    def renumber(self, kept: Rows, moved: Rows) -> None:
        """Keys are numbered anew."""
        self.lists.tidy(kept)
        self._groups = np.where(
            self._groups < len(moved), moved[np.minimum(self._groups, len(moved) - 1)], -1
        )

    # --- state ---------------------------------------------------------------------------------------

    @property
    def stored(self) -> list[str]:
        """The columns of a snapshot."""
        return [*(name for name in self.log.schema.names if name != KEY_HASH), SINCE]

    def freeze(self) -> MakeTable:
        """All rows, with the times when they came."""
        rows, since = self.log.freeze(), self._since[self.log.alive()]
        return lambda: rows().append_column(SINCE, pa.array(since))

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take rows of a snapshot."""
        rows = batch.select(self.log.schema.names)
        groups = self.locate(rows)
        self.lists.grow(len(self._keys))
        self.add(rows, groups, batch.column(SINCE).to_numpy())

    def clear(self) -> None:
        """Forget all rows."""
        self._keys.clear()
        self.log.clear()
        self.lists.clear()
