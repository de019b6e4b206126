"""Channels between slots over TCP: one authenticated connection per pair, driven by the slot's loop.

The slot with the lower number calls, the other answers, at an ``acceptor.py`` with threads of its own;
everything after the greeting is non-blocking and belongs to the loop's thread.  Credits: a receiver tells of
each element it has taken, in order, and a sender counts what is on its way; see ``channel.py`` for the bound.
It counts what an element occupies as objects if that is more than on the wire: so it will at the receiver.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
from collections import deque

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, SlotId
from penstock.core.security_options import DATA_PORT
from penstock.core.signals import Element
from penstock.exchange.acceptor import Door, Ports, listen
from penstock.exchange.auth import Hello
from penstock.exchange.channel import InputChannel
from penstock.exchange.codec import ChannelDecoder, ChannelEncoder
from penstock.exchange.frames import Frame, FramedSocket, FrameKind
from penstock.exchange.lines import PLAIN, Caller, Lines, Transport


class RemoteSender:
    """The sending end of a channel to another slot."""

    def __init__(self, peer: Peer, channel: ChannelId, limit: int) -> None:
        self._encoder = ChannelEncoder(channel, peer.frames)
        self._peer = peer
        self.limit = limit
        self.in_flight = 0
        self.taken_bytes = 0
        self._counted: deque[int] = deque()
        """What each frame on its way counts, oldest first."""

    def send(self, element: Element) -> None:
        """Queue an element for the wire."""
        frames = self._encoder.encode(element)
        self._peer.touched = True
        if isinstance(element, Batch):
            grown = max(1.0, element.nbytes() / max(1, sum(frames)))
            for size in frames:
                self._counted.append(int(size * grown))
                self.in_flight += self._counted[-1]

    def taken(self) -> None:
        """The receiver has taken the oldest of them."""
        size = self._counted.popleft()
        self.in_flight -= size
        self.taken_bytes += size

    def writable(self) -> bool:
        """Whether less than the bound is on its way."""
        return self.in_flight < self.limit

    def waits(self) -> bool:
        """Whether nothing is on its way."""
        return not self.in_flight


class Peer:
    """The connection to one other slot."""

    def __init__(self, slot: SlotId, frames: FramedSocket) -> None:
        self.slot = slot
        self.frames = frames
        self.senders: dict[tuple[int, int, int], RemoteSender] = {}
        self.inputs: dict[tuple[int, int, int], tuple[InputChannel, ChannelDecoder]] = {}
        self.touched = False

    def credit(self, channel: ChannelId, size: int) -> None:
        """Tell the sender that ``size`` bytes were taken."""
        self.frames.queue(FrameKind.CREDIT, channel.edge, channel.sender, channel.receiver, size)
        self.touched = True

    def on_frame(self, frame: Frame) -> None:
        """Deliver a frame to its channel."""
        key = (frame.a, frame.b, frame.c)
        if frame.kind is FrameKind.CREDIT:
            sender = self.senders.get(key)
            if sender is not None:
                sender.taken()
            return
        found = self.inputs.get(key)
        if found is None:
            raise TransportError(f"slot {self.slot} sent data for a channel that does not exist: {key}")
        channel, decoder = found
        element = decoder.decode(frame)
        if element is not None:
            size = len(frame.payload) if frame.kind is not FrameKind.SIGNAL else 0
            channel.put(element, size)


class TcpNetwork:
    """All connections of one slot. Implements the builder's ``Network``."""

    def __init__(
        self,
        slot: SlotId,
        job: str,
        generation: int,
        secret: bytes,
        selector: selectors.BaseSelector,
        host: str = "127.0.0.1",
        transport: Transport = PLAIN,
    ) -> None:
        self._slot = slot
        self._of = (job, generation)
        self._lines = Lines(secret, transport)
        self._selector = selector
        self._peers: dict[SlotId, Peer] = {}
        self._accepted: queue.Queue[tuple[SlotId, FramedSocket]] = queue.Queue()
        self._listener = listen(host, Ports(DATA_PORT.key, transport.data_ports))
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        selector.register(self._wake_in, selectors.EVENT_READ, None)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        Door(self._listener, "penstock-data", lambda sock: self._lines.answer(sock, *self._of), self._admit)

    def wake(self) -> None:
        """Make a waiting ``select`` return; from any thread."""
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def _admit(self, caller: Caller, sock: socket.socket) -> None:
        self._accepted.put((SlotId(caller.hello.slot), caller.frames))
        self.wake()

    def connect(self, peers: dict[SlotId, tuple[str, int]], timeout_s: float = 30.0) -> None:
        """Connect to all other slots: call the higher ones, wait for the lower ones."""
        hello = Hello(*self._of, int(self._slot), "data")
        for slot, address in sorted(peers.items()):
            if slot > self._slot:
                try:
                    self._add(slot, self._lines.call(address, hello, timeout_s))
                except TransportError as error:
                    raise TransportError(f"slot {slot}: {error}") from error
        missing = {slot for slot in peers if slot < self._slot} - self._peers.keys()
        while missing:
            try:
                slot, frames = self._accepted.get(timeout=timeout_s)
            except queue.Empty:
                raise TransportError("a neighbouring slot did not connect in time") from None
            self._add(slot, frames)
            missing.discard(slot)

    def _add(self, slot: SlotId, frames: FramedSocket) -> None:
        peer = Peer(slot, frames)
        self._peers[slot] = peer
        self._selector.register(frames.socket, selectors.EVENT_READ, peer)

    # --- what tasks use ---------------------------------------------------------------------

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> RemoteSender:
        """The sending end of a channel to a task in another slot."""
        peer = self._peers[slot]
        sender = RemoteSender(peer, channel, limit)
        peer.senders[_key(channel)] = sender
        return sender

    def register(self, channel: InputChannel) -> None:
        """Elements that arrive for this channel go into its queue."""
        peer = self._peers[SlotId(int(channel.id.sender))]
        peer.inputs[_key(channel.id)] = (channel, ChannelDecoder())
        channel.on_consumed(lambda size: peer.credit(channel.id, size))

    # --- what the loop uses -----------------------------------------------------------------

    def send_all(self) -> None:
        """Push out what was queued since the last call."""
        for peer in self._peers.values():
            if peer.touched:
                peer.touched = False
                peer.frames.send_by(self._selector, peer)

    def on_ready(self, peer: Peer | None, events: int) -> None:
        """The selector found something to do for one of our sockets."""
        if peer is None:
            with contextlib.suppress(BlockingIOError):
                self._wake_in.recv(4096)
            return
        if events & selectors.EVENT_WRITE:
            peer.frames.send_by(self._selector, peer)
        if events & selectors.EVENT_READ:
            try:
                for frame in peer.frames.receive():
                    peer.on_frame(frame)
            except TransportError as error:
                raise TransportError(f"slot {peer.slot}: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers.values():
            peer.frames.close()
        self._wake_in.close()
        self._wake_out.close()


def _key(channel: ChannelId) -> tuple[int, int, int]:
    return (int(channel.edge), int(channel.sender), int(channel.receiver))
