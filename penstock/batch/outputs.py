"""The sending side of a vertex in BATCH mode: records become rows of :mod:`~penstock.batch.wire`.

The rows gather in an :class:`Outbox`, which whoever drives the vertex empties now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.wire import (
    FIRST_PART,
    SCHEMA,
    TO_DRIVER,
    first_place,
    frame,
    parts_of,
    record_bodies,
)
from penstock.core.batch import Batch, can_concat, concat
from penstock.core.ids import EventTime
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
_OUT_BYTES = 16 << 20


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
        self._ready: list[pa.RecordBatch] = []
        self._single: list[tuple[int, int, int, int, int, bytes]] = []
        self._bytes = 0
        self._rows = 0

    def add(self, edge: int, target: int, part: int, place: int, body: bytes) -> None:
        """One row."""
        self._single.append((edge, target, part, 0, place, body))
        self._bytes += len(body)

    def add_all(
        self, edge: int, targets: Any, parts: Any, times: Any, place: int, bodies: list[bytes]
    ) -> None:
        """Many rows, with places from ``place`` on."""
        count = len(bodies)
        columns = [
            pa.array(np.full(count, edge, np.int32)),
            pa.array(targets.astype(np.int32)),
            pa.array(parts),
            pa.array(times),
            pa.array(np.arange(place, place + count, dtype=np.int64)),
            pa.array(bodies, pa.binary()),
        ]
        self._ready.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        self._rows += count

    def is_full(self) -> bool:
        """Whether it is time to empty it."""
        return self._rows >= _OUT_ROWS or self._bytes >= _OUT_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything in it."""
        ready, single = self._ready, self._single
        self._ready, self._single, self._rows, self._bytes = [], [], 0, 0
        yield from ready
        if single:
            columns = zip(*single, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class EdgeOutput:
    """One outgoing exchange, seen as the ``Output`` of the chain's last operator."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox) -> None:
        self._edge = edge
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

    def _add(self, target: int, part: int, batch: Batch) -> None:
        self._outbox.add(self._edge.id, target, part, self._place, frame(batch))
        self._place += 1


class _Frames(EdgeOutput):
    """Gathers frames per receiver."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox) -> None:
        super().__init__(edge, sender, senders, outbox)
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
        self._add(target, self._part, concat(self._waiting.pop(target)))

    def flush(self) -> None:
        for target in sorted(self._waiting):
            self._send(target)


class _Groups(EdgeOutput):
    """Gathers records, sorts them by key group and makes a frame of each group."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox) -> None:
        super().__init__(edge, sender, senders, outbox)
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
            self._add(target, group, batch.slice(start, stop))


class _Records(EdgeOutput):
    """Makes a row of each record."""

    def emit(self, batch: Batch) -> None:
        self.rows += len(batch)
        if not len(batch):
            return
        edge = self._edge
        assert isinstance(edge.partitioning, Hash)
        keyed = attach_keys(batch, edge.partitioning)
        hashes = key_hashes(keyed)
        targets = key_groups(hashes, edge.max_parallelism) * edge.receivers // edge.max_parallelism
        times = np.array(keyed.time_list(), np.int64) if keyed.times is None else keyed.times
        bodies = record_bodies(keyed)
        self._outbox.add_all(edge.id, targets, parts_of(hashes), times, self._place, bodies)
        self._place += len(bodies)


_KINDS: dict[Form, type[EdgeOutput]] = {
    Form.FRAMES: _Frames,
    Form.FIRST: _Frames,
    Form.GROUPS: _Groups,
    Form.RECORDS: _Records,
}


def edge_output(edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox) -> EdgeOutput:
    """The output for an exchange."""
    return _KINDS[edge.form](edge, sender, senders, outbox)


def to_driver(outbox: Outbox, body: bytes) -> None:
    """Send something to the driver."""
    outbox.add(TO_DRIVER, 0, 0, 0, body)
