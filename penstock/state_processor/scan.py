"""How to read one state of an operator: its columns and types, and the pieces that hold rows of it.

A :class:`Scan` is made on the driver from the heads of blocks; each of its pieces can then be read anywhere,
one Spark task a piece.  Types come from the blocks.  A column that some block holds pickled gets the type
that fits the first such block of every piece, or JSON text if nothing does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from penstock.core.errors import SnapshotError
from penstock.core.handles import KeyedPiece
from penstock.core.ids import SubtaskIndex
from penstock.snapshot.storage import SnapshotStore
from penstock.state_processor.blocks import Outline, blocks, untrusted
from penstock.state_processor.values import MisfitError, join, settled, to_arrow, to_text, type_of

DOMAIN = "domain"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A piece of keyed state with what is in it."""

    subtask: SubtaskIndex
    handle: KeyedPiece
    outlines: tuple[Outline, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task reads: the blocks of one table in one piece."""

    handle: KeyedPiece
    state: str
    domain: str | None
    """Value of the column ``domain``, which only timers have."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Columns, types and pieces of one state. Picklable."""

    schema: pa.Schema
    text: frozenset[str]
    """Columns that are shown as JSON."""
    sampled: frozenset[str]
    """Columns that are pickled somewhere, so that their type is only what samples have."""
    pieces: tuple[Piece, ...]
    trusted: bool

    def batches(self, store: SnapshotStore, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The rows of a piece; :class:`MisfitError` if a pickled value has another type than the sample."""
        wanted = [name for name in self.schema.names if name != DOMAIN or piece.domain is None]
        for block in blocks(store, piece.handle):
            if block.outline.name != piece.state:
                continue
            columns = block.columns(wanted, self.trusted)
            arrays = [self._column(name, columns, piece.domain) for name in self.schema.names]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            if batch.num_rows:
                yield batch

    def _column(self, name: str, columns: dict[str, pa.Array | list[Any]], domain: str | None) -> pa.Array:
        if name == DOMAIN and domain is not None:
            return pa.repeat(pa.scalar(domain), len(columns["key"]))
        if name in self.text:
            return to_text(columns[name])
        return to_arrow(columns[name], self.schema.field(name).type)

    def as_text(self) -> Scan:
        """The same with every column of a sampled type shown as JSON."""
        kept = [pa.field(f.name, pa.string()) if f.name in self.sampled else f for f in self.schema]
        return replace(self, schema=pa.schema(kept), text=self.text | self.sampled)


def keyed_scan(
    store: SnapshotStore,
    surveyed: Sequence[Surveyed],
    states: dict[str, str | None],
    trusted: bool,
    only: Sequence[str] = (),
) -> Scan:
    """How to read the tables named in ``states`` as one; each is given its value of the domain column.

    At least one block of them must be there.  ``only`` names the columns that are wanted, if not all are.
    """
    pieces = tuple(
        Piece(found.handle, name, domain)
        for name, domain in states.items()
        for found in surveyed
        if any(outline.name == name for outline in found.outlines)
    )
    parts = [outline for found in surveyed for outline in found.outlines if outline.name in states]
    if len({outline.shape for outline in parts}) != 1:
        raise SnapshotError(f"{', '.join(states)}: blocks of one state have different shapes")
    there = dict.fromkeys(name for outline in parts for name in outline.column_names())
    names = [name for name in there if not only or name in only]
    pickled = [name for name in names if any(name in outline.pickled for outline in parts)]
    if pickled and not trusted:
        raise untrusted(f"state {', '.join(states)!r}", pickled)
    samples = _samples(store, pieces, pickled)
    types = {name: _common_type(name, parts, samples.get(name, [])) for name in names}
    fields = [pa.field(name, kind or pa.string()) for name, kind in types.items()]
    if any(domain is not None for domain in states.values()):
        fields.insert(0, pa.field(DOMAIN, pa.string()))
    text = frozenset(name for name, kind in types.items() if kind is None)
    return Scan(pa.schema(fields), text, frozenset(pickled), pieces, trusted)


def _common_type(name: str, parts: Sequence[Outline], samples: Sequence[list[Any]]) -> pa.DataType | None:
    """The type that fits a column in all blocks and samples; ``None`` if there is none."""
    typed = [part.typed.field(name).type for part in parts if name in part.typed.names]
    try:
        return settled(reduce(join, [*typed, *map(type_of, samples)]))
    except MisfitError:
        return None


def _samples(store: SnapshotStore, pieces: Sequence[Piece], names: list[str]) -> dict[str, list[list[Any]]]:
    """For each pickled column, its values in the first such block of each piece."""
    found: dict[str, list[list[Any]]] = {name: [] for name in names}
    for piece in pieces if names else ():
        missing = set(names)
        for block in blocks(store, piece.handle):
            here = [name for name in missing if name in block.outline.pickled]
            if block.outline.name == piece.state and here:
                for name, values in block.columns(here, trusted=True).items():
                    found[name].append(list(values))
                    missing.discard(name)
            if not missing:
                break
    return found
