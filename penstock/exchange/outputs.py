"""The sending side of a task: routers, per-channel buffers and the flush rule.

A buffer is sent when it holds enough rows or bytes, when the buffer timeout has passed, or when the task has
run out of input: what it just made of the last of it goes at once to receivers that wait
(:meth:`OutputEdge.flush_waiting`), to all others when the next look finds no input either
(:meth:`OutputEdge.flush`).  So light load gives single-record latency, heavy load gives big batches, and
nobody tunes.  Signals go behind whatever is buffered, never before it.  Design note 034.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.core.batch import Batch, can_concat, concat
from penstock.core.errors import PenstockError, TransportError, TypeMismatchError
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime, VertexId
from penstock.core.messages import HotGroups
from penstock.core.signals import ACTIVE, IDLE, Element, Watermark
from penstock.core.sizing import Gauge
from penstock.exchange.channel import DEFAULT_LIMIT, Sender, piece_bytes
from penstock.exchange.dealing import Dealing
from penstock.exchange.partition import Router, ToAll
from penstock.exchange.tail import UNWATCHED, Tail


class _Buffer:
    """What is gathered for one channel."""

    __slots__ = ("enough_bytes", "enough_rows", "gauge", "parts", "rows", "sender", "size")

    def __init__(self, sender: Sender, enough_rows: int, enough_bytes: int, gauge: Gauge) -> None:
        self.sender = sender
        self.enough_rows = enough_rows
        self.enough_bytes = enough_bytes
        self.gauge = gauge
        self.parts: list[Batch] = []
        self.rows = 0
        self.size = 0

    def flush(self) -> None:
        if self.parts:
            parts, self.parts, self.rows, self.size = self.parts, [], 0, 0
            self.sender.send(concat(parts))

    def add(self, batch: Batch) -> int:
        """Gather a share; its bytes."""
        if self.parts and not can_concat(self.parts[0], batch):
            self.flush()
        size = batch.nbytes(self.gauge.rows_bytes)
        self.parts.append(batch)
        self.rows += len(batch)
        self.size += size
        if self.rows >= self.enough_rows or self.size >= self.enough_bytes:
            self.flush()
        return size


class OutputEdge:
    """One outgoing exchange of a task, seen as the ``Output`` of the chain's last operator.

    ``name`` says in errors where it leads; ``by_room`` that whoever has room may get a record, if the router
    deals in turn.
    """

    def __init__(
        self,
        router: Router,
        senders: dict[int, Sender],
        enough_rows: int,
        name: str = "the next step",
        target: VertexId | None = None,
        by_room: bool = False,
    ) -> None:
        self._router = router
        self.target = target
        """The vertex that reads from it."""
        self.tail: Tail = UNWATCHED
        self._name = name
        self.emitted_bytes = 0
        """All that was ever given to it."""
        self.emitted_rows = 0
        self.last_watermark = MIN_TIME
        self.limit = min(sender.limit for sender in senders.values())
        """The bound of its tightest channel, in bytes."""
        # One measure for all, so that a record for everybody leaves every buffer at once: a receiver in this
        # slot gets the record itself and may change it, and by then it must be on the wire to the others.
        enough_bytes, gauge = piece_bytes(self.limit), Gauge(0)
        self._buffers = {
            target: _Buffer(sender, enough_rows, enough_bytes, gauge) for target, sender in senders.items()
        }
        self._dealing: Dealing | None = None
        if by_room and len(senders) > 1:
            self._dealing = Dealing(router, self._buffers, self.limit)
        self._route = router.route if self._dealing is None else self._dealing.route
        self._dirty = False

    def emit(self, batch: Batch) -> None:
        """Route records into the buffers."""
        count = len(batch)
        if not count:
            return
        self._dirty = True
        self.emitted_rows += count
        self.tail.saw(batch)
        try:
            for target, share in self._route(batch):
                self.emitted_bytes += self._buffers[target].add(share)
        except (TransportError, TypeMismatchError) as error:
            raise self._located(error) from error

    def side(self, tag: str, batch: Batch) -> None:
        """Side outputs are separate edges; one that ends here has no reader."""

    def watermark(self, time: EventTime) -> None:
        """Send a watermark to all channels, behind the data before it."""
        self.last_watermark = time
        self.broadcast(Watermark(time))

    def idle(self, is_idle: bool) -> None:
        """Tell all channels that this stream went idle or active."""
        self.broadcast(IDLE if is_idle else ACTIVE)

    def broadcast(self, signal: Element) -> None:
        """Send a signal on every channel, in order with the data."""
        self.flush()
        for buffer in self._buffers.values():
            buffer.sender.send(signal)

    def flush(self) -> bool:
        """Send what is buffered; says whether there was anything."""
        if not self._dirty:
            return False
        self._send(self._buffers.values())
        self._dirty = False
        return True

    def flush_waiting(self) -> bool:
        """Send what is buffered to receivers that have nothing else to do, as far as one can tell from here.

        A busy one would not look at it, and is better served by larger batches.  What everybody gets goes to
        all at the same time, or not yet.  Says whether anything was sent.
        """
        if not self._dirty:
            return False
        waiting = [buffer for buffer in self._buffers.values() if buffer.sender.waits()]
        if len(waiting) == len(self._buffers):
            return self.flush()
        if isinstance(self._router, ToAll):
            return False
        found = [buffer for buffer in waiting if buffer.parts]
        self._send(found)
        return bool(found)

    def _send(self, buffers: Iterable[_Buffer]) -> None:
        try:
            for buffer in buffers:
                buffer.flush()
        except (TransportError, TypeMismatchError) as error:
            raise self._located(error) from error

    def _located(self, error: PenstockError) -> PenstockError:
        return error.retold(f"on the way to {self._name}: {error}")

    def hot_groups(self) -> HotGroups | None:
        """The key groups with the most records, where the receivers are keyed and several."""
        return None if self._router.counts is None else self._router.counts.hottest()

    def gathered_bytes(self) -> int:
        """What waits in the buffers."""
        return sum(buffer.size for buffer in self._buffers.values())

    def writable(self) -> bool:
        """Whether all channels are below their bounds; one is enough where records are dealt by room."""
        if self._dealing is not None:
            return self._dealing.writable()
        for buffer in self._buffers.values():  # noqa: SIM110 - asked several times a step
            if not buffer.sender.writable():
                return False
        return True


class Outputs:
    """All outgoing exchanges of a task."""

    def __init__(self, edges: Sequence[OutputEdge]) -> None:
        self._edges = tuple(edges)
        self.limit = min((edge.limit for edge in edges), default=DEFAULT_LIMIT)
        """The bound of the tightest channel, in bytes."""
        self.piece_bytes = piece_bytes(self.limit)

    @property
    def has_edges(self) -> bool:
        """Whether the task sends anything to others."""
        return bool(self._edges)

    def broadcast(self, signal: Element) -> None:
        """Send a signal on every channel, in order with the data."""
        for edge in self._edges:
            edge.broadcast(signal)

    def flush(self) -> bool:
        """Send what is buffered; says whether there was anything."""
        return any([edge.flush() for edge in self._edges])

    def flush_waiting(self) -> bool:
        """Send what is buffered for receivers that wait; says whether there was anything."""
        return any([edge.flush_waiting() for edge in self._edges])

    def writable(self) -> bool:
        """Whether all channels are below their bounds."""
        for edge in self._edges:  # noqa: SIM110 - asked several times a step
            if not edge.writable():
                return False
        return True

    def emitted_bytes(self) -> int:
        """All that was ever given to them."""
        return sum([edge.emitted_bytes for edge in self._edges])

    def emitted_rows(self) -> int:
        """Records that were ever given to them, once for each that they were given to."""
        return sum([edge.emitted_rows for edge in self._edges])

    def watermark(self) -> EventTime:
        """How far event time has come on all of them; the end of time if there are none."""
        return min((edge.last_watermark for edge in self._edges), default=MAX_TIME)

    def gathered_bytes(self) -> int:
        """What waits in their buffers."""
        return sum(edge.gathered_bytes() for edge in self._edges)
