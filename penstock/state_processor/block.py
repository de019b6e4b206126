"""What keyed state is made of, whatever it is stored as: blocks of rows, of one state each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.errors import SnapshotError
from penstock.state.backend import EntryShape
from penstock.state.schema import StateSchema
from penstock.state_processor.layouts import shown


@dataclass(frozen=True, slots=True)
class Outline:
    """What a block holds, without its rows."""

    name: str
    shape: EntryShape | None
    """``None``: a batch of a columnar store."""
    rows: int
    length: int
    """Bytes of the block."""
    typed: pa.Schema
    """The columns that are Arrow."""
    pickled: tuple[str, ...]
    """The columns that are not."""
    schema: StateSchema | None = None
    """How the program declared the state, if it did."""
    declared: bool = False
    """Whether the values are stored as declared."""

    def column_names(self) -> list[str]:
        """All columns, in the order of reading."""
        if self.shape is None:
            return list(self.typed.names)
        named = {"key": "key value", "key,namespace": "key namespace value"}
        return named.get(self.shape.value, "time key namespace").split()


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one state."""

    outline: Outline
    batch: pa.RecordBatch
    """Typed columns of all rows."""
    mask: pa.Array
    """Which rows belong to the piece."""
    unpickle: Callable[[], dict[str, list[Any]]]
    """Loads the pickled columns of all rows; called only if the source is trusted."""

    def columns(self, wanted: list[str], trusted: bool) -> dict[str, pa.Array | list[Any]]:
        """The rows of the wanted columns: typed ones as arrays, pickled ones as lists of Python values."""
        everything = self.mask.true_count == len(self.mask)
        opaque = [name for name in wanted if name in self.outline.pickled]
        if opaque and not trusted:
            raise untrusted(f"state {self.outline.name!r}", opaque)
        unpickled = self.unpickle() if opaque else {}
        keep = None if everything else self.mask.to_pylist()
        found: dict[str, pa.Array | list[Any]] = {}
        for name in wanted:
            if name in opaque:
                values = unpickled[name]
                found[name] = values if keep is None else [v for v, k in zip(values, keep, strict=True) if k]
            elif name in self.batch.schema.names:
                array = self.batch.column(name)
                array = array if everything else array.filter(self.mask)
                found[name] = self._shown(name, array)
            else:
                found[name] = pa.nulls(self.mask.true_count)
        return found

    def _shown(self, name: str, array: pa.Array) -> pa.Array:
        schema = self.outline.schema
        stored_as_declared = name == "value" and self.outline.declared and schema is not None
        return shown(array, schema.layout) if stored_as_declared and schema is not None else array


def untrusted(what: str, columns: list[str]) -> SnapshotError:
    """The error for pickled values that nobody has vouched for."""
    return SnapshotError(
        f"{what} holds pickled Python objects ({', '.join(columns)}), and unpickling runs whatever code the "
        f"writer of the snapshot put there. If you know who wrote it, say so: trusted=True, "
        f'option("trusted", "true"), or --trusted'
    )
