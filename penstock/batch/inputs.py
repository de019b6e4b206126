"""The reading side of a vertex in BATCH mode: sorted rows become batches, and keys come to an end.

A round is a number of keys that are whole: their records are processed, then event time jumps to its end
and all about them is forgotten.  Rounds are as large as is convenient, not as small as possible: what a
round costs is shared by its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.batch.merge import Merge, Sorted
from penstock.batch.pieces import piece_of
from penstock.batch.sizes import Sizes
from penstock.batch.wire import FIRST_PART, batch_of_frame
from penstock.core.batch import Batch
from penstock.graph.bounded import Form

_GROUPED_ROWS = 1 << 20
"""A round of key groups ends at the first end of a group behind so many records."""


@dataclass(frozen=True, slots=True)
class IncomingEdge:
    """What a reader must know about an exchange."""

    form: Form
    input_index: int


class Reader:
    """Turns rows into calls: ``process`` for records, ``end_round`` when all keys so far are whole.

    Without a keyed input there is one round, and its end is the end of input, which the caller knows.
    :meth:`feed` and :meth:`end` stop now and then, so that what became of the records can go on its way.
    """

    def __init__(
        self,
        edges: Mapping[int, IncomingEdge],
        process: Callable[[Batch, int], None],
        end_round: Callable[[], None],
        sizes: Sizes,
        in_order: bool = False,
    ) -> None:
        """``in_order``: whether it matters to those behind in which order results come."""
        self._edges = edges
        self._process = process
        self._end_round = end_round
        self._group: int | None = None
        self._part = FIRST_PART
        self._rows = 0
        """Of the round so far."""
        self._sizes = sizes
        self._in_order = in_order
        self._merge = Merge(sizes)

    @property
    def has_rounds(self) -> bool:
        """Whether keys come to an end before the input does."""
        return any(edge.form in (Form.RECORDS, Form.GROUPS) for edge in self._edges.values())

    def feed(self, rows: pa.RecordBatch) -> Iterator[None]:
        """Take rows, in order."""
        edges, parts, places = (rows.column(name).to_pylist() for name in ("edge", "part", "place"))
        bodies = rows.column("body")
        for at, number in enumerate(edges):
            edge, body = self._edges[number], bodies[at].as_buffer()
            if edge.form is Form.RECORDS:
                for ready in self._merge.add(piece_of(body, edge.input_index, places[at])):
                    yield from self._rounds(ready)
                continue
            batch = batch_of_frame(body)
            if edge.form is Form.GROUPS:
                self._turn_to(parts[at], len(batch))
            self._process(batch, edge.input_index)
            yield

    def end(self) -> Iterator[None]:
        """All rows have been given."""
        for ready in self._merge.end():
            yield from self._rounds(ready)

    def close(self) -> None:
        """Give back what is held outside of memory."""
        self._merge.close()

    def _turn_to(self, group: int, rows: int) -> None:
        if group != self._group and self._rows >= _GROUPED_ROWS:
            self._end_round()
            self._rows = 0
        self._group = group
        self._rows += rows

    def _rounds(self, ready: Sorted) -> Iterator[None]:
        """A round ends at the first new key behind enough records.

        Where order matters, nothing but the records decides where that is: timers of the keys of a round
        fire together, in order of time, and how much is sorted together is a matter of estimates.
        """
        enough = self._sizes.certain_rows if self._in_order else self._sizes.rows_of(ready.row_bytes)
        parts, start = ready.parts, 0
        while start < len(parts):
            at = start + max(enough - self._rows, 0)
            stop = len(parts)
            if at < stop:
                last = parts[at - 1] if at else self._part
                stop = int(np.searchsorted(parts, last, side="right"))
            yield from self._run(ready, start, stop)
            self._rows += stop - start
            if stop < len(parts):
                self._end_round()
                self._rows = 0
            start = stop
        self._part = int(parts[-1])

    def _run(self, ready: Sorted, start: int, stop: int) -> Iterator[None]:
        for low in range(start, stop, self._sizes.ready_rows):
            for batch, input_index in ready.turns(low, min(low + self._sizes.ready_rows, stop)):
                self._process(batch, input_index)
                yield
