"""The sending side of a vertex in BATCH mode: records become rows of :mod:`~penstock.batch.wire`.

The rows gather in an :class:`Outbox`, which whoever drives the vertex empties now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.batch.pieces import body_of, sendable
from penstock.batch.sizes import Sizes
from penstock.batch.wire import (
    FIRST_PART,
    SCHEMA,
    TO_DRIVER,
    first_place,
    frame,
    parts_of,
)
from penstock.core.batch import Batch, Times, can_concat, concat
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.keygroups import key_groups
from penstock.exchange.partition import Hash, Partitioning, attach_keys, key_hashes, make_router
from penstock.graph.bounded import Form

_FRAME_ROWS = 32768
"""Records in a frame at most, about."""
_HELD_ROWS = 262144
"""Records that wait for their frames to fill, over all receivers of an edge."""
_GROUPED_ROWS = 131072
"""Records that are sorted by key group together."""
_OUT_ROWS = 8192
_OUT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class OutgoingEdge:
    """What a sender must know about an exchange."""

    id: int
    form: Form
    partitioning: Partitioning
    input_index: int
    receivers: int
    max_parallelism: int


class Outbox:
    """Rows on their way out."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int, bytes]] = []
        self._bytes = 0

    def add(self, edge: int, target: int, part: int, time: int, place: int, body: bytes) -> None:
        """One row."""
        self._rows.append((edge, target, part, time, place, body))
        self._bytes += len(body)

    def is_full(self) -> bool:
        """Whether it is time to empty it."""
        return len(self._rows) >= _OUT_ROWS or self._bytes >= _OUT_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything in it."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class EdgeOutput:
    """One outgoing exchange, seen as the ``Output`` of the chain's last operator."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        self._edge = edge
        self._sizes = sizes
        self._outbox = outbox
        self._place = first_place(edge.input_index, edge.id, sender)
        self.rows = 0
        """Records that were taken."""

    def emit(self, batch: Batch) -> None:
        """Take records."""
        raise NotImplementedError

    def flush(self) -> None:
        """No more records come: everything goes into the outbox."""

    def side(self, tag: str, batch: Batch) -> None:
        """Side outputs are separate edges; one that ends here has no reader."""

    def watermark(self, time: EventTime) -> None:
        """Event time is the reader's own affair."""

    def idle(self, is_idle: bool) -> None:
        """There is no waiting in BATCH mode."""

    def _add(self, target: int, part: int, time: int, body: bytes, places: int = 1) -> None:
        self._outbox.add(self._edge.id, target, part, time, self._place, body)
        self._place += places


class _Frames(EdgeOutput):
    """Gathers frames per receiver."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        super().__init__(edge, sender, senders, outbox, sizes)
        self._router = make_router(edge.partitioning, sender, senders, edge.receivers, edge.max_parallelism)
        self._part = FIRST_PART if edge.form is Form.FIRST else 0
        self._waiting: dict[int, list[Batch]] = {}
        self._rows: dict[int, int] = {}
        self._held = 0

    def emit(self, batch: Batch) -> None:
        self.rows += len(batch)
        if not len(batch):
            return
        for target, share in self._router.route(batch):
            parts = self._waiting.setdefault(target, [])
            if parts and not can_concat(parts[0], share):
                self._send(target)
                parts = self._waiting.setdefault(target, [])
            parts.append(share)
            self._held += len(share)
            self._rows[target] = self._rows.get(target, 0) + len(share)
            if self._rows[target] >= _FRAME_ROWS:
                self._send(target)
        if self._held >= _HELD_ROWS:
            self.flush()

    def _send(self, target: int) -> None:
        self._held -= self._rows.pop(target, 0)
        self._add(target, self._part, 0, frame(concat(self._waiting.pop(target))))

    def flush(self) -> None:
        for target in sorted(self._waiting):
            self._send(target)


class _Groups(EdgeOutput):
    """Gathers records, sorts them by key group and makes a frame of each group."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        super().__init__(edge, sender, senders, outbox, sizes)
        self._waiting: list[Batch] = []
        self._rows = 0

    def emit(self, batch: Batch) -> None:
        self.rows += len(batch)
        if not len(batch):
            return
        assert isinstance(self._edge.partitioning, Hash)
        keyed = attach_keys(batch, self._edge.partitioning)
        if self._waiting and not can_concat(self._waiting[0], keyed):
            self.flush()
        self._waiting.append(keyed)
        self._rows += len(keyed)
        if self._rows >= _GROUPED_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        batch = concat(self._waiting)
        self._waiting, self._rows = [], 0
        edge = self._edge
        groups = key_groups(key_hashes(batch), edge.max_parallelism)
        order = np.argsort(groups, kind="stable")
        groups, batch = groups[order], batch.take(order)
        bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for start, stop in pairwise(bounds):
            group = int(groups[start])
            target = group * edge.receivers // edge.max_parallelism
            self._add(target, group, 0, frame(batch.slice(start, stop)))


class _Records(EdgeOutput):
    """Gathers records, sorts them by receiver, key and time, and makes a row of each piece of that."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        super().__init__(edge, sender, senders, outbox, sizes)
        self._waiting: list[Batch] = []
        self._rows = self._bytes = 0

    def emit(self, batch: Batch) -> None:
        self.rows += len(batch)
        if not len(batch):
            return
        assert isinstance(self._edge.partitioning, Hash)
        keyed = attach_keys(batch, self._edge.partitioning)
        if self._waiting and not can_concat(self._waiting[0], keyed):
            self.flush()
        self._waiting.append(keyed)
        self._rows += len(keyed)
        self._bytes += keyed.about_bytes()
        if self._rows >= self._sizes.sorted_rows or self._bytes >= self._sizes.sorted_bytes:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        edge, sizes, batch = self._edge, self._sizes, concat(self._waiting)
        rows = max(len(batch) // sizes.pieces, sizes.piece_rows)
        rows = max(1, min(rows, sizes.piece_bytes * len(batch) // (self._bytes + 1)))
        self._waiting, self._rows, self._bytes = [], 0, 0
        hashes = key_hashes(batch)
        parts, times = parts_of(hashes), batch.times
        targets = key_groups(hashes, edge.max_parallelism) * edge.receivers // edge.max_parallelism
        order = np.lexsort((parts, targets) if times is None else (times, parts, targets))
        batch, parts, targets = sendable(batch).take(order), parts[order], targets[order]
        bounds = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), len(order)]
        for low, high in pairwise(bounds):
            for start in range(low, high, rows):
                stop = min(start + rows, high)
                self._piece(int(targets[start]), parts[start:stop], batch.slice(start, stop))

    def _piece(self, target: int, parts: Times, batch: Batch) -> None:
        body = body_of(parts, batch.times, batch)
        if len(body) > self._sizes.most_bytes and len(batch) > 1:
            middle = len(batch) // 2
            self._piece(target, parts[:middle], batch.slice(0, middle))
            self._piece(target, parts[middle:], batch.slice(middle, len(batch)))
            return
        time = MIN_TIME if batch.times is None else int(batch.times[0])
        self._add(target, int(parts[0]), time, body, len(batch))


_KINDS: dict[Form, type[EdgeOutput]] = {
    Form.FRAMES: _Frames,
    Form.FIRST: _Frames,
    Form.GROUPS: _Groups,
    Form.RECORDS: _Records,
}


def edge_output(edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> EdgeOutput:
    """The output for an exchange."""
    return _KINDS[edge.form](edge, sender, senders, outbox, sizes)


def to_driver(outbox: Outbox, body: bytes) -> None:
    """Send something to the driver."""
    outbox.add(TO_DRIVER, 0, 0, 0, 0, body)
