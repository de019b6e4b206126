"""Channels between the slots of one simulated worker group: ordered, with latency, bounded by credits.

What crosses slots is frames of bytes, and the sending ends are those of a cluster: a receiver never holds
the very object that a sender has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, SlotId
from penstock.exchange import frames
from penstock.exchange.channel import InputChannel, Sender
from penstock.exchange.codec import ChannelDecoder
from penstock.exchange.frames import Buffer, Frame, FrameKind
from penstock.exchange.network import Peer, RemoteSender
from penstock.testing.sim.environment import SimulatedEnvironment

Inside = Callable[[], AbstractContextManager[None]]
_FRAME_BYTES = 112 << 10
"""A frame holds a gigabyte on a cluster; here all that is near the limit shall happen."""
_SLOW_MS = (10.0, 60.0)
_USUAL_MS = (0.1, 4.0)


class _Link:
    """One channel: what is on its way, and who waits at its ends."""

    def __init__(self, world: SimulatedEnvironment, channel: ChannelId) -> None:
        self._world = world
        slow = world.faults.hit("slow_channel", str(channel))
        self._latency = _SLOW_MS if slow else _USUAL_MS
        self._free_at = 0.0
        self._early: list[Frame] = []
        self._decoder = ChannelDecoder()
        self._input: InputChannel | None = None
        self.sender: RemoteSender | None = None
        self.frames = self
        """Where the sender queues what it encodes."""
        self.touched = False
        self.wake_sender: Callable[[], None] = lambda: None
        self.wake_receiver: Callable[[], None] = lambda: None
        self.receiver: Inside = nullcontext

    def attach(self, channel: InputChannel) -> None:
        """The receiving end is there."""
        self._input = channel
        channel.on_consumed(self._consumed)
        early, self._early = self._early, []
        for frame in early:
            self._put(channel, frame)

    def queue(self, kind: FrameKind, a: int, b: int, c: int, d: int, *payload: Buffer) -> int:
        """A frame is on its way; called by the sender's encoder."""
        body = b"".join(payload)
        if len(body) > frames.MAX_PAYLOAD:
            raise TransportError(f"a frame of {len(body)} bytes, where {frames.MAX_PAYLOAD} are allowed")
        frame = Frame(kind, a, b, c, d, body)
        scheduler = self._world.scheduler
        self._free_at = max(self._free_at, scheduler.now + scheduler.between(*self._latency))
        scheduler.at(self._free_at, lambda: self._arrive(frame))
        self._free_at += 1e-6  # the next one must not overtake this one by the toss of a coin
        return len(body)

    def _arrive(self, frame: Frame) -> None:
        if self._input is None:
            self._early.append(frame)
        else:
            self._put(self._input, frame)
            self.wake_receiver()

    def _put(self, channel: InputChannel, frame: Frame) -> None:
        with self.receiver():
            element = self._decoder.decode(frame)
        if element is not None:
            channel.put(element, 0 if frame.kind is FrameKind.SIGNAL else len(frame.payload))

    def _consumed(self, size: int) -> None:
        if self.sender is not None:
            self.sender.taken()
        self.wake_sender()


@contextmanager
def small_frames() -> Iterator[None]:
    """Frames that are soon full."""
    before, frames.MAX_PAYLOAD = frames.MAX_PAYLOAD, _FRAME_BYTES
    try:
        yield
    finally:
        frames.MAX_PAYLOAD = before


class GroupNetwork:
    """All channels of one worker group."""

    def __init__(self, world: SimulatedEnvironment) -> None:
        self._world = world
        self._links: dict[ChannelId, _Link] = {}

    def link(self, channel: ChannelId) -> _Link:
        """The link of a channel; either end may come first."""
        if channel not in self._links:
            self._links[channel] = _Link(self._world, channel)
        return self._links[channel]


class SlotNetwork:
    """A slot's view of the worker group's channels; implements what tasks are built with."""

    def __init__(self, group: GroupNetwork, wake: Callable[[], None], inside: Inside) -> None:
        self._group = group
        self._wake = wake
        self._inside = inside

    def connect(self, peers: dict[SlotId, tuple[str, int]]) -> None:
        """Nothing to connect."""

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> Sender:
        """The sending end of a channel."""
        link = self._group.link(channel)
        link.wake_sender = self._wake
        link.sender = RemoteSender(cast(Peer, link), channel, limit)
        return link.sender

    def register(self, channel: InputChannel) -> None:
        """The receiving end of a channel."""
        link = self._group.link(channel.id)
        link.wake_receiver = self._wake
        link.receiver = self._inside
        link.attach(channel)
