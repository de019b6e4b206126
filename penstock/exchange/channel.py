"""The receiving end of a channel, and the two kinds of sending end.

A channel is an ordered stream of elements from one sender subtask to one receiver subtask.  The queue
sits at the receiver; a sender may put data into it while less than ``limit`` bytes are on their way
or queued, so a slow receiver slows its senders and nothing grows without bound.  Signals always
pass: they are tiny, and a barrier that cannot move would stop everything.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.core.batch import Batch
from penstock.core.ids import ChannelId
from penstock.core.signals import Element, EndOfInput
from penstock.core.sizing import SEGMENT_BYTES

SIGNAL_BYTES = 0
ALL = sys.maxsize
DEFAULT_LIMIT = 8 << 20


def piece_bytes(limit: int) -> int:
    """How much travels together on a channel with this bound: so much that several fit."""
    return max(limit // 8, min(limit, SEGMENT_BYTES))


def element_bytes(element: Element) -> int:
    """What an element counts against a channel's bound."""
    return max(1, element.nbytes()) if isinstance(element, Batch) else SIGNAL_BYTES


class InputChannel:
    """Queue of elements that wait for the receiving task."""

    __slots__ = ("_announce", "_consumed", "_queue", "_ready", "id", "queued_bytes", "taken_bytes", "tap")

    def __init__(self, channel_id: ChannelId) -> None:
        self.id = channel_id
        self.queued_bytes = 0
        self.taken_bytes = 0
        """All that was ever taken out."""
        self.tap: Callable[[Batch], None] | None = None
        """Sees every batch as it arrives, while a snapshot records this channel."""
        self._queue: deque[tuple[Element, int]] = deque()
        self._ready: Callable[[], None] = lambda: None
        self._announce: Callable[[Element], bool] = lambda signal: False
        self._consumed: Callable[[int], None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Element]:
        return (element for element, _ in self._queue)

    @property
    def ends(self) -> bool:
        """Whether the end of the channel is in the queue: nothing more will come."""
        return bool(self._queue) and isinstance(self._queue[-1][0], EndOfInput)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Called when an element arrives in an empty queue."""
        self._ready = callback

    def on_signal(self, callback: Callable[[Element], bool]) -> None:
        """Called with each signal that arrives, before it is queued; if true, it is not queued."""
        self._announce = callback

    def on_consumed(self, callback: Callable[[int], None]) -> None:
        """Called with the bytes of each element taken: the remote sender's credit."""
        self._consumed = callback

    def put(self, element: Element, size: int) -> None:
        """Append an element that counts ``size`` bytes."""
        if size == SIGNAL_BYTES:
            if self._announce(element):
                return
        elif self.tap is not None and isinstance(element, Batch):
            self.tap(element)
        self._queue.append((element, size))
        self.queued_bytes += size
        if len(self._queue) == 1:
            self._ready()

    def take(self, most: int = ALL) -> Element:
        """Remove and return the first element.

        Of a batch with more than ``most`` rows only the first rows; the others stay where they are, and
        the sender gets its credit when the last of them is taken.
        """
        element, size = self._queue[0]
        if size and isinstance(element, Batch) and len(element) > most:
            self._queue[0] = (element.slice(most, len(element)), size)
            return element.slice(0, most)
        self._queue.popleft()
        self.queued_bytes -= size
        self.taken_bytes += size
        if size and self._consumed is not None:
            self._consumed(size)
        return element

    def remove(self, signal: Element) -> None:
        """Take a signal out of the queue, wherever it is."""
        self._queue.remove((signal, SIGNAL_BYTES))


class Sender(Protocol):
    """The sending end of a channel."""

    limit: int
    """The channel's bound, in bytes."""

    @property
    def in_flight(self) -> int:
        """Bytes that the receiver has not taken yet."""
        ...

    @property
    def taken_bytes(self) -> int:
        """All that the receiver ever took."""
        ...

    def send(self, element: Element) -> None:
        """Pass an element on. Never blocks; check ``writable`` before producing more data."""
        ...

    def writable(self) -> bool:
        """Whether the channel is below its bound."""
        ...

    def waits(self) -> bool:
        """Whether the receiver has taken all data that was sent: it would get more at once."""
        ...


class LocalSender:
    """To a task in the same slot: the queue itself, nothing is copied."""

    __slots__ = ("_channel", "limit")

    def __init__(self, channel: InputChannel, limit: int) -> None:
        self._channel = channel
        self.limit = limit

    @property
    def in_flight(self) -> int:
        return self._channel.queued_bytes

    @property
    def taken_bytes(self) -> int:
        return self._channel.taken_bytes

    def send(self, element: Element) -> None:
        self._channel.put(element, element_bytes(element))

    def writable(self) -> bool:
        return self._channel.queued_bytes < self.limit

    def waits(self) -> bool:
        return not self._channel.queued_bytes
