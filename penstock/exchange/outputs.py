"""The sending side of a task: routers, per-channel buffers and the flush rule.

A buffer is sent when it holds enough rows, when the buffer timeout has passed, or when the task has
run out of input (it calls :meth:`OutputEdge.flush`).  So light load gives single-record latency, heavy
load gives big batches, and nobody tunes.  Signals go behind whatever is buffered, never before it.
"""

from __future__ import annotations

from penstock.core.batch import Batch, can_concat, concat
from penstock.core.ids import EventTime
from penstock.core.signals import ACTIVE, IDLE, Element, Watermark
from penstock.exchange.channel import Sender
from penstock.exchange.partition import Router


class _Buffer:
    """What is gathered for one channel."""

    __slots__ = ("parts", "rows", "sender")

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.parts: list[Batch] = []
        self.rows = 0

    def flush(self) -> None:
        if self.parts:
            parts, self.parts, self.rows = self.parts, [], 0
            self.sender.send(concat(parts))

    def add(self, batch: Batch, enough: int) -> None:
        if self.parts and not can_concat(self.parts[0], batch):
            self.flush()
        self.parts.append(batch)
        self.rows += len(batch)
        if self.rows >= enough:
            self.flush()


class OutputEdge:
    """One outgoing exchange of a task, seen as the ``Output`` of the chain's last operator."""

    def __init__(self, router: Router, senders: dict[int, Sender], enough_rows: int) -> None:
        self._router = router
        self._buffers = {target: _Buffer(sender) for target, sender in senders.items()}
        self._enough = enough_rows
        self._dirty = False

    def emit(self, batch: Batch) -> None:
        """Route records into the buffers."""
        if not len(batch):
            return
        for target, share in self._router.route(batch):
            self._buffers[target].add(share, self._enough)
        self._dirty = True

    def side(self, tag: str, batch: Batch) -> None:
        """Side outputs are separate edges; one that ends here has no reader."""

    def watermark(self, time: EventTime) -> None:
        """Send a watermark to all channels, behind the data before it."""
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
        for buffer in self._buffers.values():
            buffer.flush()
        self._dirty = False
        return True

    def writable(self) -> bool:
        """Whether all channels are below their bounds."""
        return all(buffer.sender.writable() for buffer in self._buffers.values())
