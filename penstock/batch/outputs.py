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
from penstock.core.errors import TypeMismatchError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.keygroups import key_groups
from penstock.exchange.partition import Hash, Partitioning, attach_keys, key_hashes, make_router
from penstock.graph.bounded import Form

_FRAME_ROWS = 32768
"""Records in a frame at most, about."""
_FRAME_BYTES = 4 << 20
"""Or so many bytes, about."""
_HELD_ROWS = 262144
"""Records that wait for their frames to fill, over all receivers of an edge."""
_HELD_BYTES = 16 << 20
"""Or so many bytes."""
_GROUPED_ROWS = 131072
"""Records that are sorted by key group together."""
_GROUPED_BYTES = 64 << 20
"""Or so many bytes."""
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
    name: str = "the next step"
    """Where it leads, for errors."""


_Row = tuple[int, int, int, int, int, bytes]


class Outbox:
    """Rows on their way out."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._bytes = 0

    def add(self, edge: int, target: int, part: int, time: int, place: int, body: bytes) -> None:
        """One row."""
        self._rows.append((edge, target, part, time, place, body))
        self._bytes += len(body)

    def is_full(self) -> bool:
        """Whether it is time to empty it."""
        return len(self._rows) >= _OUT_ROWS or self._bytes >= _OUT_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything in it, no more at a time than it holds before it is full; a larger row goes alone."""
        rows, self._rows, self._bytes = self._rows, [], 0
        start = size = 0
        for at, (*_, body) in enumerate(rows):
            if at > start and (at - start >= _OUT_ROWS or size + len(body) > _OUT_BYTES):
                yield _together(rows[start:at])
                start, size = at, 0
            size += len(body)
        if rows:
            yield _together(rows[start:])


def _together(rows: list[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


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
        if not len(batch):
            return
        self.rows += len(batch)
        try:
            self._take(batch)
        except TypeMismatchError as error:
            raise self._located(error) from error

    def flush(self) -> None:
        """No more records come: everything goes into the outbox."""
        try:
            self._send_all()
        except TypeMismatchError as error:
            raise self._located(error) from error

    def _take(self, batch: Batch) -> None:
        raise NotImplementedError

    def _send_all(self) -> None:
        raise NotImplementedError

    def side(self, tag: str, batch: Batch) -> None:
        """Side outputs are separate edges; one that ends here has no reader."""

    def watermark(self, time: EventTime) -> None:
        """Event time is the reader's own affair."""

    def idle(self, is_idle: bool) -> None:
        """There is no waiting in BATCH mode."""

    def _add(self, target: int, part: int, time: int, body: bytes, places: int = 1) -> None:
        self._outbox.add(self._edge.id, target, part, time, self._place, body)
        self._place += places

    def _located(self, error: TypeMismatchError) -> TypeMismatchError:
        return error.retold(f"on the way to {self._edge.name}: {error}")


class _Lot:
    """Records that wait to be sent together."""

    __slots__ = ("batches", "bytes", "rows")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.rows = self.bytes = 0

    def fits(self, batch: Batch) -> bool:
        """Whether these records can be joined to those that wait."""
        return not self.batches or can_concat(self.batches[0], batch)

    def add(self, batch: Batch) -> None:
        """Have these wait too."""
        self.batches.append(batch)
        self.rows += len(batch)
        self.bytes += batch.about_bytes()


class _Frames(EdgeOutput):
    """Gathers frames per receiver."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        super().__init__(edge, sender, senders, outbox, sizes)
        self._router = make_router(edge.partitioning, sender, senders, edge.receivers, edge.max_parallelism)
        self._part = FIRST_PART if edge.form is Form.FIRST else 0
        self._lots: dict[int, _Lot] = {}
        self._rows = self._bytes = 0

    def _take(self, batch: Batch) -> None:
        for target, share in self._router.route(batch):
            lot = self._lots.get(target)
            if lot is not None and not lot.fits(share):
                self._send(target)
                lot = None
            if lot is None:
                lot = self._lots[target] = _Lot()
            before = lot.bytes
            lot.add(share)
            self._rows += len(share)
            self._bytes += lot.bytes - before
            if lot.rows >= _FRAME_ROWS or lot.bytes >= _FRAME_BYTES:
                self._send(target)
        if self._rows >= _HELD_ROWS or self._bytes >= _HELD_BYTES:
            self._send_all()

    def _send(self, target: int) -> None:
        lot = self._lots.pop(target)
        self._rows -= lot.rows
        self._bytes -= lot.bytes
        batch = concat(lot.batches)
        rows = -(-len(batch) // max(1, lot.bytes // _FRAME_BYTES))
        for start in range(0, len(batch), rows):
            share = batch.slice(start, min(start + rows, len(batch)))
            self._add(target, self._part, 0, frame(share))

    def _send_all(self) -> None:
        for target in sorted(self._lots):
            self._send(target)


class _Keyed(EdgeOutput):
    """Gathers records with their keys, as many as are sorted together."""

    def __init__(self, edge: OutgoingEdge, sender: int, senders: int, outbox: Outbox, sizes: Sizes) -> None:
        super().__init__(edge, sender, senders, outbox, sizes)
        self._lot = _Lot()

    def _take(self, batch: Batch) -> None:
        assert isinstance(self._edge.partitioning, Hash)
        keyed = self._as_sent(attach_keys(batch, self._edge.partitioning))
        if not self._lot.fits(keyed):
            self._send_all()
        self._lot.add(keyed)
        if self._is_enough(self._lot):
            self._send_all()

    def _send_all(self) -> None:
        lot, self._lot = self._lot, _Lot()
        if lot.rows:
            self._send(concat(lot.batches), lot.bytes)

    def _as_sent(self, batch: Batch) -> Batch:
        return batch

    def _is_enough(self, lot: _Lot) -> bool:
        raise NotImplementedError

    def _send(self, batch: Batch, size: int) -> None:
        raise NotImplementedError


class _Groups(_Keyed):
    """Sorts records by key group and makes a frame of each group."""

    def _is_enough(self, lot: _Lot) -> bool:
        return lot.rows >= _GROUPED_ROWS or lot.bytes >= _GROUPED_BYTES

    def _send(self, batch: Batch, size: int) -> None:
        edge = self._edge
        groups = key_groups(key_hashes(batch), edge.max_parallelism)
        order = np.argsort(groups, kind="stable")
        groups, batch = groups[order], batch.take(order)
        bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for start, stop in pairwise(bounds):
            group = int(groups[start])
            target = group * edge.receivers // edge.max_parallelism
            self._add(target, group, 0, frame(batch.slice(start, stop)))


class _Records(_Keyed):
    """Sorts records by receiver, key and time, and makes a row of each piece of that."""

    def _as_sent(self, batch: Batch) -> Batch:
        return sendable(batch)

    def _is_enough(self, lot: _Lot) -> bool:
        return lot.rows >= self._sizes.sorted_rows or lot.bytes >= self._sizes.sorted_bytes

    def _send(self, batch: Batch, size: int) -> None:
        edge, sizes = self._edge, self._sizes
        rows = max(len(batch) // sizes.pieces, sizes.piece_rows)
        rows = max(1, min(rows, sizes.piece_bytes * len(batch) // (size + 1)))
        hashes = key_hashes(batch)
        parts, times = parts_of(hashes), batch.times
        targets = key_groups(hashes, edge.max_parallelism) * edge.receivers // edge.max_parallelism
        order = np.lexsort((parts, targets) if times is None else (times, parts, targets))
        batch, parts, targets = batch.take(order), parts[order], targets[order]
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
