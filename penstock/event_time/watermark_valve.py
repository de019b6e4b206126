"""The valve: one watermark out of many.

An input gate has a watermark per channel, a source one per split; what the operator behind them sees
is one watermark that never goes backwards.  :class:`WatermarkValve` is that rule and nothing else: it
holds no clock, sends nothing, and answers each event with what must be sent on.

The rule.  The output is the minimum over the *aligned* channels, whenever that grows.  A channel that
is idle is left out.  When it wakes up behind the output it stays left out (not aligned) until its
watermark has caught up, so its records may be late but time does not stop for them.  When the last
active channel goes idle, nobody can hold time back any more: the maximum of all is flushed, once, and
the output is idle.

A channel that has ended (``on_end``, or a watermark of ``MAX_TIME``) leaves the minimum for good, but
does not drag the output to the end of time while others are merely idle: only when *every* channel has
ended is the output ``MAX_TIME``.

Cost: amortised O(log n) per watermark, O(n) only for the flush.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace

from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime


class _Channel(Enum):
    """What a channel is doing, as far as time is concerned."""

    ALIGNED = "active, and part of the minimum"
    CATCHING_UP = "active, but behind the output since it was idle"
    IDLE = "left out until it says it is active"
    ENDED = "left out for good"
    REMOVED = "forgotten"


@dataclass(frozen=True, slots=True)
class ValveResult:
    """What an event asks the owner to send on.

    A stream must be active to be heard, so waking up goes before the watermark, going idle after it.
    """

    watermark: EventTime | None = None
    idle_changed: bool | None = None
    """``True``: the output went idle; ``False``: it is active again; ``None``: no change."""


NOTHING = ValveResult()
_BECAME_ACTIVE = ValveResult(idle_changed=False)


class WatermarkValve:
    """Combines the watermarks and the idleness of ``n`` channels, numbered from 0.

    Channels start active at ``MIN_TIME``.  A channel that is :meth:`add`\\ ed later holds the output
    where it is until it has a watermark of its own that is larger.
    """

    __slots__ = ("_active", "_heap", "_in_heap", "_marks", "_open", "_states", "idle", "watermark")

    def __init__(self, n: int) -> None:
        self.watermark: EventTime = MIN_TIME
        """The last output."""
        self.idle = False
        """Whether the output is idle."""
        self._marks: list[int] = [MIN_TIME] * n
        self._states = [_Channel.ALIGNED] * n
        # At most one entry per channel, whose time may lag behind the channel's mark but never
        # exceeds it: the top is a lower bound that is corrected only when somebody looks at it.
        self._heap: list[tuple[int, int]] = [(MIN_TIME, i) for i in range(n)]
        self._in_heap = [True] * n
        heapify(self._heap)
        self._active = n
        self._open = n

    def on_watermark(self, channel: int, time: EventTime) -> EventTime | None:
        """Channel ``channel`` got a watermark; the new output if it grew.

        A watermark on an idle channel is ignored, except ``MAX_TIME``.
        """
        if time == MAX_TIME:
            return self._end(channel)
        state = self._states[channel]
        if time <= self._marks[channel] or not (state is _Channel.ALIGNED or state is _Channel.CATCHING_UP):
            return None
        self._marks[channel] = time
        if state is _Channel.CATCHING_UP and time >= self.watermark:
            self._align(channel)
        return self._advance()

    def on_idle(self, channel: int) -> ValveResult:
        """Channel ``channel`` went idle."""
        state = self._states[channel]
        if state is not _Channel.ALIGNED and state is not _Channel.CATCHING_UP:
            return NOTHING
        return self._result(self._leave(channel, _Channel.IDLE))

    def on_active(self, channel: int) -> ValveResult:
        """Channel ``channel`` is active again; it counts once it has caught up."""
        if self._states[channel] is not _Channel.IDLE:
            return NOTHING
        self._active += 1
        if self._marks[channel] >= self.watermark:
            self._align(channel)
        else:
            self._states[channel] = _Channel.CATCHING_UP
        return self._wake()

    def on_end(self, channel: int) -> ValveResult:
        """Channel ``channel`` has ended: it holds nothing back any more."""
        return self._result(self._end(channel))

    def add(self) -> int:
        """A new channel, active at ``MIN_TIME``; its number. Wakes an idle valve up: see ``idle``."""
        channel = len(self._marks)
        self._marks.append(MIN_TIME)
        self._states.append(_Channel.IDLE)
        self._in_heap.append(False)
        self._align(channel)
        self._active += 1
        self._open += 1
        self.idle = False
        return channel

    def remove(self, channel: int) -> ValveResult:
        """Forget channel ``channel``, as if it had never been; numbers are not used again."""
        state = self._states[channel]
        if state is _Channel.REMOVED:
            return NOTHING
        if state is not _Channel.ENDED:
            self._open -= 1
        return self._result(self._leave(channel, _Channel.REMOVED))

    def channel_watermark(self, channel: int) -> EventTime:
        """The last watermark that counted for ``channel``."""
        return EventTime(self._marks[channel])

    def is_aligned(self, channel: int) -> bool:
        """Whether ``channel`` is part of the minimum."""
        return self._states[channel] is _Channel.ALIGNED

    def _end(self, channel: int) -> EventTime | None:
        state = self._states[channel]
        if state is _Channel.ENDED or state is _Channel.REMOVED:
            return None
        self._open -= 1
        advanced = self._leave(channel, _Channel.ENDED)
        if self._open:
            return advanced
        self.watermark, self.idle = MAX_TIME, False
        return MAX_TIME

    def _leave(self, channel: int, into: _Channel) -> EventTime | None:
        """Take a channel out of the minimum; the new output if it was the one that held it back."""
        state = self._states[channel]
        self._states[channel] = into
        if state is not _Channel.ALIGNED and state is not _Channel.CATCHING_UP:
            return None
        self._active -= 1
        if state is _Channel.CATCHING_UP or self._marks[channel] > self.watermark:
            return None
        return self._advance() if self._active else self._flush()

    def _align(self, channel: int) -> None:
        self._states[channel] = _Channel.ALIGNED
        if not self._in_heap[channel]:
            self._in_heap[channel] = True
            heappush(self._heap, (self._marks[channel], channel))

    def _advance(self) -> EventTime | None:
        """The minimum over the aligned channels, if it is larger than the last output."""
        heap, marks, states = self._heap, self._marks, self._states
        while heap:
            time, channel = heap[0]
            if states[channel] is not _Channel.ALIGNED:
                heappop(heap)
                self._in_heap[channel] = False
            elif marks[channel] != time:
                heapreplace(heap, (marks[channel], channel))
            elif time > self.watermark:
                self.watermark = EventTime(time)
                return self.watermark
            else:
                return None
        return None

    def _flush(self) -> EventTime | None:
        latest = max(
            (
                mark
                for mark, state in zip(self._marks, self._states, strict=True)
                if state is not _Channel.REMOVED
            ),
            default=MIN_TIME,
        )
        if latest <= self.watermark:
            return None
        self.watermark = EventTime(latest)
        return self.watermark

    def _result(self, advanced: EventTime | None) -> ValveResult:
        if self._open and not self._active and not self.idle:
            self.idle = True
            return ValveResult(advanced, True)
        return NOTHING if advanced is None else ValveResult(advanced)

    def _wake(self) -> ValveResult:
        if not self.idle:
            return NOTHING
        self.idle = False
        return _BECAME_ACTIVE
