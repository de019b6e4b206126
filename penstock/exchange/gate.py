"""The input gate of a task: many channels in, one well-ordered sequence of events out.

The gate serves ready channels in turn, merges their watermarks and idleness through the valve, and
lets the aligner decide which channels to hold for a barrier.  Held channels keep queueing (bounded);
their elements are served after release, in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import cast

from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import Epoch, EventTime
from penstock.core.signals import (
    Active,
    Barrier,
    CancelBarrier,
    Element,
    EndOfInput,
    Idle,
    Watermark,
)
from penstock.core.watermarks import ValveResult, WatermarkValve
from penstock.exchange.align import Aligner, Alignment
from penstock.exchange.channel import InputChannel


@dataclass(frozen=True, slots=True)
class Data:
    """Records for one of the task's inputs."""

    batch: Batch
    input_index: int


@dataclass(frozen=True, slots=True)
class TimeAdvanced:
    """The merged watermark grew, and/or the task's input as a whole went idle or active."""

    watermark: EventTime | None
    idle: bool | None


@dataclass(frozen=True, slots=True)
class BarrierReady:
    """All barriers of a snapshot are there."""

    barrier: Barrier
    alignment_ms: float


@dataclass(frozen=True, slots=True)
class SnapshotsCancelled:
    """These snapshots will not be completed."""

    epochs: tuple[Epoch, ...]


@dataclass(frozen=True, slots=True)
class InputEnded:
    """One input index has ended; ``all_ended`` when it was the last."""

    input_index: int
    all_ended: bool


GateEvent = Data | TimeAdvanced | BarrierReady | SnapshotsCancelled | InputEnded


class InputGate:
    """Merges the channels of one task. Not thread-safe: the slot's loop owns it."""

    def __init__(self, channels: list[tuple[InputChannel, int]], aligner: Aligner, clock: Clock) -> None:
        self._channels = [channel for channel, _ in channels]
        self._input_of = [index for _, index in channels]
        self._aligner = aligner
        self._clock = clock
        self._valve = WatermarkValve(len(channels))
        self._held: set[int] = set()
        self._ready: deque[int] = deque()
        self._open = set(range(len(channels)))
        self._events: deque[GateEvent] = deque()
        self._aligning_since: float | None = None
        for number, channel in enumerate(self._channels):
            channel.on_ready(lambda number=number: self._on_ready(number))  # type: ignore[misc]
            if len(channel):
                self._on_ready(number)

    def _on_ready(self, number: int) -> None:
        if number not in self._held:
            self._ready.append(number)

    @property
    def has_input(self) -> bool:
        """Whether :meth:`poll` would return something."""
        return bool(self._events or self._ready)

    def poll(self) -> GateEvent | None:
        """The next event, or ``None`` if nothing can be served now."""
        while not self._events:
            if not self._ready:
                return None
            number = self._ready.popleft()
            channel = self._channels[number]
            element = channel.take()
            if isinstance(element, Batch):
                if len(channel):
                    self._ready.append(number)
                return Data(element, self._input_of[number])
            self._on_signal(number, element)
            if len(channel) and number not in self._held and number not in self._ready:
                self._ready.append(number)
        return self._events.popleft()

    def cancel(self, epoch: Epoch) -> None:
        """The coordinator gave up ``epoch``: stop aligning for it."""
        self._apply(self._aligner.on_cancel(epoch))

    def _on_signal(self, number: int, element: Element) -> None:
        if isinstance(element, Watermark):
            grown = self._valve.on_watermark(number, element.time)
            if grown is not None:
                self._events.append(TimeAdvanced(grown, None))
        elif isinstance(element, Idle):
            self._on_valve(self._valve.on_idle(number))
        elif isinstance(element, Active):
            self._on_valve(self._valve.on_active(number))
        elif isinstance(element, Barrier):
            if self._aligning_since is None:
                self._aligning_since = self._clock.monotonic()
            self._apply(self._aligner.on_barrier(number, element))
        elif isinstance(element, CancelBarrier):
            self._apply(self._aligner.on_cancel(element.epoch))
        else:
            self._on_end(number, cast(EndOfInput, element))

    def _on_valve(self, result: ValveResult) -> None:
        if result.watermark is not None or result.idle_changed is not None:
            self._events.append(TimeAdvanced(result.watermark, result.idle_changed))

    def _on_end(self, number: int, _: EndOfInput) -> None:
        self._open.discard(number)
        self._apply(self._aligner.on_end(number))
        self._on_valve(self._valve.on_end(number))
        index = self._input_of[number]
        if not any(self._input_of[other] == index for other in self._open):
            self._events.append(InputEnded(index, not self._open))

    def _apply(self, alignment: Alignment) -> None:
        if alignment.block is not None:
            self._held.add(alignment.block)
        if alignment.aborted:
            self._events.append(SnapshotsCancelled(alignment.aborted))
        if alignment.release:
            keep = alignment.block
            for number in sorted(self._held):
                if number != keep:
                    self._held.discard(number)
                    if len(self._channels[number]) and number not in self._ready:
                        self._ready.append(number)
        if alignment.complete is not None:
            now = self._clock.monotonic()
            waited = (now - (now if self._aligning_since is None else self._aligning_since)) * 1000
            self._events.append(BarrierReady(alignment.complete, waited))
        if not self._held:
            self._aligning_since = None
