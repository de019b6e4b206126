"""Channels between the slots of one simulated gang: ordered, with latency, bounded by credits."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.batch import Batch
from penstock.core.copying import copied_batch
from penstock.core.ids import ChannelId, SlotId
from penstock.core.signals import Element
from penstock.exchange.channel import InputChannel, Sender, element_bytes
from penstock.testing.sim.world import World

_SLOW_MS = (10.0, 60.0)
_USUAL_MS = (0.1, 4.0)


class _Link:
    """One channel: what is on its way, and who waits at its ends."""

    def __init__(self, world: World, channel: ChannelId) -> None:
        self._world = world
        slow = world.faults.hit("slow_channel", str(channel))
        self._latency = _SLOW_MS if slow else _USUAL_MS
        self._free_at = 0.0
        self._early: list[tuple[Element, int]] = []
        self._input: InputChannel | None = None
        self.outstanding = 0
        self.wake_sender: Callable[[], None] = lambda: None
        self.wake_receiver: Callable[[], None] = lambda: None

    def attach(self, channel: InputChannel) -> None:
        """The receiving end is there."""
        self._input = channel
        channel.on_consumed(self._consumed)
        for element, size in self._early:
            channel.put(element, size)
        self._early = []

    def send(self, element: Element, size: int) -> None:
        self.outstanding += size
        scheduler = self._world.scheduler
        self._free_at = max(self._free_at, scheduler.now + scheduler.between(*self._latency))
        scheduler.at(self._free_at, lambda: self._arrive(element, size))
        self._free_at += 1e-6  # the next one must not overtake this one by the toss of a coin

    def _arrive(self, element: Element, size: int) -> None:
        if self._input is None:
            self._early.append((element, size))
        else:
            self._input.put(element, size)
            self.wake_receiver()

    def _consumed(self, size: int) -> None:
        self.outstanding -= size
        self.wake_sender()


class _SimSender:
    def __init__(self, link: _Link, limit: int) -> None:
        self._link = link
        self.limit = limit

    def send(self, element: Element) -> None:
        own = copied_batch(element) if isinstance(element, Batch) else element
        self._link.send(own, element_bytes(element))

    def writable(self) -> bool:
        return self._link.outstanding < self.limit


class GangNetwork:
    """All channels of one gang."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._links: dict[ChannelId, _Link] = {}

    def link(self, channel: ChannelId) -> _Link:
        """The link of a channel; either end may come first."""
        if channel not in self._links:
            self._links[channel] = _Link(self._world, channel)
        return self._links[channel]


class SlotNetwork:
    """A slot's view of the gang's channels; implements what tasks are built with."""

    def __init__(self, gang: GangNetwork, wake: Callable[[], None]) -> None:
        self._gang = gang
        self._wake = wake

    def connect(self, peers: dict[SlotId, tuple[str, int]]) -> None:
        """Nothing to connect."""

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> Sender:
        """The sending end of a channel."""
        link = self._gang.link(channel)
        link.wake_sender = self._wake
        return _SimSender(link, limit)

    def register(self, channel: InputChannel) -> None:
        """The receiving end of a channel."""
        link = self._gang.link(channel.id)
        link.wake_receiver = self._wake
        link.attach(channel)
