"""Merging pieces: records in order, as soon as no piece that is still to come can hold one before them.

Pieces come in the order of their first records.  So what stands before the first record of the newest piece
is complete.  The rest of the pieces stays *open*.  How much that is depends on how many pieces a sender cuts
what it holds into: with 256 of them it is a 256th of all that the reader gets.  If it is too much all the
same, it is written to a file as one more sorted run, whose blocks come back as pieces when it is their turn.

Nothing is handed on before twice as much is there as was left over the last time, so a piece is looked at
twice or so, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from penstock.batch.pieces import Piece, Spot
from penstock.batch.sizes import Sizes
from penstock.batch.spill import Spill
from penstock.core.batch import Batch, Times, concat
from penstock.core.ids import MIN_TIME


class Sorted:
    """Records in order, of one input or several."""

    def __init__(self, pieces: list[Piece]) -> None:
        parts = np.concatenate([piece.parts for piece in pieces])
        times = np.concatenate([piece.times for piece in pieces])
        places = np.concatenate([piece.places for piece in pieces])
        self.row_bytes = _row_bytes(pieces)
        order = np.lexsort((places, times, parts))
        self.parts, self.times, self.places = parts[order], times[order], places[order]
        kinds = _by_kind(pieces)
        self._inputs = [some[0].input_index for some in kinds.values()]
        joined = [concat([piece.batch for piece in some]) for some in kinds.values()]
        if len(joined) == 1:
            self.batches = [joined[0].take(order)]
            return
        number = {kind: at for at, kind in enumerate(kinds)}
        of_rows = np.repeat([number[piece.kind] for piece in pieces], [len(piece) for piece in pieces])
        within = np.empty(len(order), np.int64)
        self._kinds, self._ranks, self.batches = of_rows[order], np.empty_like(within), []
        for kind, batch in enumerate(joined):
            within[of_rows == kind] = np.arange(len(batch))
            mine = self._kinds == kind
            self._ranks[mine] = np.arange(len(batch))
            # Inputs take turns record by record, or nearly: columns would have to be cut for each of them.
            self.batches.append(_as_rows(batch.take(within[order[mine]])))

    def __len__(self) -> int:
        return len(self.parts)

    def turns(self, start: int, stop: int) -> Iterator[tuple[Batch, int]]:
        """Records ``start`` to ``stop`` as batches of one input each."""
        if start == stop:
            return
        if len(self.batches) == 1:
            yield self._batch(0, start, self.times[start:stop])
            return
        turns = (np.flatnonzero(np.diff(self._kinds[start:stop])) + 1 + start).tolist()
        for low, high in pairwise([start, *turns, stop]):
            yield self._batch(int(self._kinds[low]), int(self._ranks[low]), self.times[low:high])

    def _batch(self, kind: int, start: int, times: Times) -> tuple[Batch, int]:
        batch = self.batches[kind].slice(start, start + len(times))
        batch.times = None if int(times.max()) == MIN_TIME else times
        return batch, self._inputs[kind]


def _by_kind(pieces: Sequence[Piece]) -> dict[object, list[Piece]]:
    kinds: dict[object, list[Piece]] = {}
    for piece in pieces:
        kinds.setdefault(piece.kind, []).append(piece)
    return kinds


def _as_rows(batch: Batch) -> Batch:
    return Batch(rows=batch.to_rows(), keys=batch.key_list())


class Merge:
    """Takes pieces in the order of their first records, hands records on in order."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._spill: Spill | None = None
        self._hold([])

    def add(self, piece: Piece) -> Iterator[Sorted]:
        """Take the next piece. What is handed on comes before everything that is still to come."""
        while self._spill and self._spill.first <= piece.first:
            yield from self._take(self._spill.pop())
        yield from self._take(piece)

    def end(self) -> Iterator[Sorted]:
        """No more pieces come: all the rest."""
        while self._spill:
            yield from self._take(self._spill.pop())
        yield from self._hand_on(None)

    def close(self) -> None:
        """Give its file back."""
        if self._spill is not None:
            self._spill.close()

    def _take(self, piece: Piece) -> Iterator[Sorted]:
        if self._rows >= self._enough_rows or self._bytes >= self._enough_bytes:
            yield from self._hand_on(piece.first)
        self._open.append(piece)
        self._rows += len(piece)
        self._bytes += len(piece) * piece.row_bytes

    def _hand_on(self, bound: Spot | None) -> Iterator[Sorted]:
        """Everything before the bound; what is left waits, here or in a file."""
        ready, left = [], []
        for piece in self._open:
            stop = len(piece) if bound is None else piece.before(bound)
            if stop:
                ready.append(piece.slice(0, stop))
            if stop < len(piece):
                left.append(piece.slice(stop, len(piece)))
        self._hold(left)
        if ready:
            yield Sorted(ready)
        if self._bytes > self._sizes.open_bytes:
            self._write()

    def _hold(self, pieces: list[Piece]) -> None:
        self._open = pieces
        self._rows = sum(map(len, pieces))
        self._bytes = sum(len(piece) * piece.row_bytes for piece in pieces)
        self._enough_rows = max(self._sizes.ready_rows, 2 * self._rows)
        self._enough_bytes = max(self._sizes.ready_bytes, 2 * self._bytes)

    def _write(self) -> None:
        """Everything that is open into the file."""
        if self._spill is None:
            self._spill = Spill(self._sizes.block_bytes)
        for pieces in _by_kind(self._open).values():
            self._spill.write(_joined(pieces))
        self._hold([])


def _joined(pieces: Sequence[Piece]) -> Piece:
    """One piece of several of a kind."""
    run = Sorted(list(pieces))
    first = pieces[0]
    return Piece(
        first.input_index, first.kind, run.parts, run.times, run.places, run.batches[0], run.row_bytes
    )


def _row_bytes(pieces: Sequence[Piece]) -> int:
    return sum(len(piece) * piece.row_bytes for piece in pieces) // sum(map(len, pieces)) + 1
