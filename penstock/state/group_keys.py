"""The keys of groups: columns of any comparable types, each key with a number, as state of an operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.core.codes import KEY_HASH, Codes, Mask, has_codes, plain_column, validity
from penstock.state.interning import coder_of
from penstock.state.key_index import KeyIndex, Rows


class GroupKeys:
    """Numbers of keys.  Nulls are values: two keys with nulls at the same places are one."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        exact = len(schema) == 1 and has_codes(schema.field(0).type)
        self._index = KeyIndex(len(schema), exact)
        self._coders = [coder_of(field.type) for field in schema]

    def __len__(self) -> int:
        return self._index.count

    @property
    def hashes(self) -> Codes:
        """The hash of each key."""
        return self._index.hashes

    def locate(self, columns: pa.RecordBatch) -> Rows:
        """The number of the key of each row; new keys get new ones, from ``len`` on."""
        hashes = columns.column(KEY_HASH).to_numpy()
        codes, nulls = self._encoded(columns)
        rows = self._index.locate(hashes, codes, nulls)
        if any(coder.is_large for coder in self._coders):
            self._shrink()
        return rows

    def _encoded(self, columns: pa.RecordBatch) -> tuple[list[Codes], Codes | None]:
        codes, nulls = [], None
        for place, (field, coder) in enumerate(zip(self.schema, self._coders, strict=True)):
            column = plain_column(columns.column(field.name))
            valid = validity(column)
            if valid is not None:
                bits = np.where(valid, 0, 1 << place)
                nulls = bits if nulls is None else nulls | bits
            codes.append(coder.codes(column))
        return codes, nulls

    def _shrink(self) -> None:
        for place, coder in enumerate(self._coders):
            if coder.is_large:
                (codes,) = coder.shrink([self._index.codes(place)])
                self._index.replace_codes(place, codes)

    def columns(self, rows: Rows) -> dict[str, pa.Array]:
        """The key columns of some numbers."""
        return self.later(rows)()

    def later(self, rows: Rows | None = None) -> Callable[[], dict[str, pa.Array]]:
        """The key columns of some numbers, or of all, as they are now; made later and in any thread."""
        index = self._index
        picked = np.arange(index.count) if rows is None else rows
        codes = [index.codes(place)[picked] for place in range(len(self.schema))]
        nulls = index.nulls[picked]
        coders = [coder.frozen() for coder in self._coders]

        def made() -> dict[str, pa.Array]:
            found = {}
            for place, (field, coder) in enumerate(zip(self.schema, coders, strict=True)):
                valid: Mask | None = (nulls >> place) & 1 == 0
                found[field.name] = coder.values(codes[place], valid)
            return found

        return made

    def keep(self, kept: Mask) -> Rows:
        """Forget all keys but these; the new number of each old one, -1 if it is gone."""
        return self._index.keep(kept)

    def clear(self) -> None:
        """Forget all keys."""
        self._index.clear()
        for coder in self._coders:
            coder.clear()
