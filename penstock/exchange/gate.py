"""The input gate of a task: many channels in, one well-ordered sequence of events out.

The gate serves ready channels in turn, merges their watermarks and idleness through the valve, and
lets the aligner decide which channels to hold for a barrier.  Held channels keep queueing (bounded);
their elements are served after release, in order.

Where barriers may overtake, the first unaligned one that *arrives* cuts all channels at once: the task
takes its snapshot before it is served anything else, and what is queued ahead of a barrier, or still comes
ahead of it, is recorded as part of the snapshot while it is served as usual.  An aligned barrier that
waits for too long is turned into such a one.

What a restored snapshot had recorded is served before anything from any channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
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
    SnapshotKind,
    Watermark,
)
from penstock.event_time.watermark_valve import ValveResult, WatermarkValve
from penstock.exchange.barrier_alignment import Aligner, Alignment
from penstock.exchange.channel import ALL, InputChannel
from penstock.exchange.channel_state import Overtaken
from penstock.exchange.events import (
    BarrierReady,
    Data,
    GateEvent,
    InputEnded,
    OvertakenComplete,
    SnapshotEvent,
    SnapshotsCancelled,
    TimeAdvanced,
)


@dataclass(frozen=True, slots=True)
class Overtaking:
    """Whether barriers may overtake what is queued at a gate."""

    allowed: bool = False
    switch_after_ms: int | None = None
    """Age at which an aligned checkpoint is turned into an unaligned one; ``None`` for never."""


NEVER = Overtaking()


class InputGate:
    """Merges the channels of one task. Not thread-safe: the slot's loop owns it.

    ``recovered`` are batches of a restored snapshot, each with the number of a channel of its exchange.
    """

    def __init__(
        self,
        channels: list[tuple[InputChannel, int]],
        aligner: Aligner,
        clock: Clock,
        overtaking: Overtaking = NEVER,
        recovered: Iterable[tuple[int, Batch]] = (),
    ) -> None:
        self._channels = [channel for channel, _ in channels]
        self._input_of = [index for _, index in channels]
        self._aligner = aligner
        self._clock = clock
        self._overtaking = overtaking
        self._recovered = deque(recovered)
        self._valve = WatermarkValve(len(channels))
        self._held: set[int] = set()
        self._ready: deque[int] = deque()
        self._open = set(range(len(channels)))
        self._events: deque[TimeAdvanced | InputEnded] = deque()
        self._snapshots: deque[SnapshotEvent] = deque()
        self._aligning_since: float | None = None
        self._recording: Overtaken | None = None
        self._recording_since = 0.0
        self._expected: list[Barrier] = []
        self._switch: tuple[int, Barrier] | None = None
        for number, channel in enumerate(self._channels):
            channel.on_ready(partial(self._on_ready, number))
            channel.on_signal(partial(self._on_arrival, number))
            if len(channel):
                self._on_ready(number)

    def _on_ready(self, number: int) -> None:
        if number not in self._held:
            self._ready.append(number)

    def queued_bytes(self) -> int:
        """What waits in the channels."""
        return sum(channel.queued_bytes for channel in self._channels)

    def taken_bytes(self) -> int:
        """All that was ever taken out of the channels."""
        return sum(channel.taken_bytes for channel in self._channels)

    @property
    def watermark(self) -> EventTime:
        """How far event time has come on all channels together."""
        return self._valve.watermark

    # --- serving ----------------------------------------------------------------------------

    def poll_snapshot(self) -> SnapshotEvent | None:
        """The next event that concerns a snapshot. These come first, even if the task cannot emit now."""
        return self._snapshots.popleft() if self._snapshots else None

    def poll(self, most: int = ALL) -> GateEvent | None:
        """The next event, or ``None`` if nothing can be served now; data in pieces of ``most`` rows."""
        while not self._snapshots:
            if self._events:
                return self._events.popleft()
            if self._recovered:
                return self._serve_recovered(most)
            if not self._ready:
                return None
            number = self._ready.popleft()
            channel = self._channels[number]
            element = channel.take(most)
            if isinstance(element, Batch):
                if len(channel):
                    self._ready.append(number)
                return Data(element, self._input_of[number])
            self._on_signal(number, element)
            if len(channel) and number not in self._held and number not in self._ready:
                self._ready.append(number)
        return self._snapshots.popleft()

    def _serve_recovered(self, most: int) -> Data:
        number, batch = self._recovered.popleft()
        if len(batch) > most:
            self._recovered.appendleft((number, batch.slice(most, len(batch))))
            batch = batch.slice(0, most)
        return Data(batch, self._input_of[number])

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
            self.cancel(element.epoch)
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

    # --- alignment --------------------------------------------------------------------------

    def cancel(self, epoch: Epoch) -> None:
        """``epoch`` was given up: stop aligning or recording for it."""
        if self._recording is not None and self._recording.barrier.epoch == epoch:
            self._give_up(self._recording)
        else:
            self._apply(self._aligner.on_cancel(epoch))

    def _apply(self, alignment: Alignment) -> None:
        if alignment.block is not None:
            self._held.add(alignment.block)
        if alignment.aborted:
            self._snapshots.append(SnapshotsCancelled(alignment.aborted))
        if alignment.release:
            self._release(alignment.block)
        if alignment.complete is not None:
            self._snapshots.append(BarrierReady(alignment.complete, self._waited_ms()))
        if not self._held:
            self._aligning_since = None

    def _release(self, keep: int | None = None) -> None:
        for number in sorted(self._held):
            if number != keep:
                self._held.discard(number)
                if len(self._channels[number]) and number not in self._ready:
                    self._ready.append(number)

    def _waited_ms(self) -> float:
        since = self._aligning_since
        return 0.0 if since is None else (self._clock.monotonic() - since) * 1000

    # --- overtaking -------------------------------------------------------------------------

    def expect(self, barrier: Barrier) -> None:
        """A snapshot has begun. If no channel can bring its barrier, it is as if it were there now."""
        self._expected.append(barrier)
        self._look_for_expected()

    def next_deadline_ms(self) -> int | None:
        """When :meth:`on_time` has something to do."""
        return None if self._switch is None else self._switch[0]

    def on_time(self, now_ms: int) -> None:
        """Turn an aligned checkpoint that waits for too long into an unaligned one."""
        if self._switch is not None and self._switch[0] <= now_ms:
            barrier = self._switch[1]
            self._switch = None
            if not self._aligner.is_stale(barrier.epoch):
                self._overtake(replace(barrier, unaligned=True), None)

    def _on_arrival(self, number: int, signal: Element) -> bool:
        """A signal has come in, behind all that is queued; true if it need not be queued."""
        if not self._overtaking.allowed:
            return False
        if isinstance(signal, EndOfInput):
            self._on_barrier_in(number)
            self._look_for_expected(number)
            return False
        return isinstance(signal, Barrier) and self._on_barrier(number, signal)

    def _on_barrier(self, number: int, barrier: Barrier) -> bool:
        recording = self._recording
        if recording is not None:
            if barrier.epoch == recording.barrier.epoch:
                self._on_barrier_in(number)
                return True
            if barrier.epoch > recording.barrier.epoch and (barrier.unaligned or number in recording.missing):
                self._give_up(recording)
        if self._aligner.is_stale(barrier.epoch):
            return True
        if not barrier.unaligned:
            self._switch_later(barrier)
            return False
        self._overtake(barrier, number)
        return True

    def _switch_later(self, barrier: Barrier) -> None:
        """From the trigger on by the driver's calendar; by ours from now on, if that is earlier."""
        after = self._overtaking.switch_after_ms
        if after is None or barrier.kind is not SnapshotKind.CHECKPOINT:
            return
        if self._switch is None or self._switch[1].epoch < barrier.epoch:
            self._switch = (min(barrier.triggered_ms, self._clock.now_ms()) + after, barrier)

    def _look_for_expected(self, ending: int | None = None) -> None:
        self._expected = [barrier for barrier in self._expected if not self._aligner.is_stale(barrier.epoch)]
        if not self._overtaking.allowed or not self._open:
            return
        if all(n == ending or self._channels[n].ends for n in self._open):
            for barrier in self._expected:
                if barrier.unaligned:
                    self._overtake(barrier, ending)
                else:
                    self._switch_later(barrier)

    def _overtake(self, barrier: Barrier, arrived: int | None) -> None:
        """Cut all channels here and now; ``arrived`` is the one whose barrier or end is just coming in."""
        if self._recording is not None:
            self._give_up(self._recording)
        aligning = self._aligner.aligning
        held = self._held if aligning == barrier.epoch else set()
        older = set() if aligning is None or aligning == barrier.epoch else {aligning}
        overtaken = Overtaken(barrier, self._open - held - {arrived})
        for number, batch in self._recovered:
            overtaken.add(self._channels[number].id, batch)
        for number in sorted(self._open - held):
            older |= self._record_queued(overtaken, number)
        self._aligner.overtake(barrier.epoch)
        if older:
            self._snapshots.append(SnapshotsCancelled(tuple(sorted(older))))
        self._snapshots.append(BarrierReady(barrier, self._waited_ms(), overtaken))
        if not overtaken.complete:
            self._recording = overtaken
            self._recording_since = self._clock.monotonic() - self._waited_ms() / 1000
        self._release()
        self._aligning_since = None

    def _record_queued(self, overtaken: Overtaken, number: int) -> set[Epoch]:
        """Record what is queued ahead of the barrier, and go on with what comes if it is not there yet.

        Returns the older snapshots whose barriers were overtaken too: they will not be completed.
        """
        channel, epoch = self._channels[number], overtaken.barrier.epoch
        older: set[Epoch] = set()
        for element in channel:
            if isinstance(element, Batch):
                overtaken.add(channel.id, element)
            elif isinstance(element, EndOfInput):
                overtaken.missing.discard(number)
            elif isinstance(element, Barrier) and element.epoch == epoch:
                overtaken.missing.discard(number)
                channel.remove(element)
                break
            elif isinstance(element, Barrier) and not self._aligner.is_stale(element.epoch):
                older |= {element.epoch} if element.epoch < epoch else set()
        if not len(channel) and number in self._ready:
            self._ready.remove(number)
        if number in overtaken.missing:
            channel.tap = partial(overtaken.add, channel.id)
        return older

    def _on_barrier_in(self, number: int) -> None:
        recording = self._recording
        if recording is None or number not in recording.missing:
            return
        recording.missing.discard(number)
        self._channels[number].tap = None
        if recording.complete:
            self._recording = None
            waited = (self._clock.monotonic() - self._recording_since) * 1000
            self._snapshots.append(OvertakenComplete(recording.barrier.epoch, waited))

    def _give_up(self, recording: Overtaken) -> None:
        for number in recording.missing:
            self._channels[number].tap = None
        self._recording = None
        self._snapshots.append(SnapshotsCancelled((recording.barrier.epoch,)))
