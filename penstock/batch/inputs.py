"""The reading side of a vertex in BATCH mode: sorted rows become batches, and keys come to an end.

A round is a number of keys that are whole: their records are processed, then event time jumps to its end
and all about them is forgotten.  Rounds are as large as is convenient, not as small as possible: what a
round costs is shared by its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.wire import FIRST_PART, batch_of_frame, batch_of_records
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
    """

    def __init__(
        self,
        edges: Mapping[int, IncomingEdge],
        process: Callable[[Batch, int], None],
        end_round: Callable[[], None],
    ) -> None:
        self._edges = edges
        self._process = process
        self._end_round = end_round
        self._group: int | None = None
        self._rows = 0
        size = 1 + max(edges, default=0)
        self._inputs = np.zeros(size, np.int64)
        for edge_id, edge in edges.items():
            self._inputs[edge_id] = edge.input_index
        self._sorted = any(edge.form is Form.RECORDS for edge in edges.values())

    @property
    def has_rounds(self) -> bool:
        """Whether keys come to an end before the input does."""
        return any(edge.form in (Form.RECORDS, Form.GROUPS) for edge in self._edges.values())

    def feed(self, rows: pa.RecordBatch) -> None:
        """Take rows, in order."""
        edges, parts = rows.column("edge").to_numpy(), rows.column("part").to_numpy()
        bodies = rows.column("body")
        start = 0
        if self._sorted:
            start = int(np.searchsorted(parts, FIRST_PART, side="right"))
        self._frames(edges, parts, bodies, start if self._sorted else len(parts))
        if start < len(parts) and self._sorted:
            times = rows.column("time").to_numpy()
            self._records(edges[start:], parts[start:], times[start:], bodies.slice(start).to_pylist())

    def _frames(self, edges: Any, parts: Any, bodies: Any, stop: int) -> None:
        for at in range(stop):
            edge = self._edges[int(edges[at])]
            batch = batch_of_frame(bodies[at].as_buffer())
            if edge.form is Form.GROUPS:
                self._turn_to(int(parts[at]), len(batch))
            self._process(batch, edge.input_index)

    def _turn_to(self, group: int, rows: int) -> None:
        if group != self._group and self._rows >= _GROUPED_ROWS:
            self._end_round()
            self._rows = 0
        self._group = group
        self._rows += rows

    def _records(self, edges: Any, parts: Any, times: Any, bodies: Sequence[bytes]) -> None:
        """All keys but the last are whole; the last may go on in the next rows."""
        cut = int(np.searchsorted(parts, parts[-1], side="left"))
        if cut:
            self._run(edges[:cut], times[:cut], bodies[:cut])
            self._end_round()
        self._run(edges[cut:], times[cut:], bodies[cut:])

    def _run(self, edges: Any, times: Any, bodies: Sequence[bytes]) -> None:
        inputs = self._inputs[edges]
        turns = (np.flatnonzero(inputs[1:] != inputs[:-1]) + 1).tolist()
        for start, stop in zip([0, *turns], [*turns, len(inputs)], strict=True):
            self._process(batch_of_records(bodies[start:stop], times[start:stop]), int(inputs[start]))
