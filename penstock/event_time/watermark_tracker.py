"""Watermarks at their origin: the tracker that runs one strategy per split, and their combination.

Each split (or each subtask, behind ``assign_timestamps_and_watermarks``) gets a
:class:`WatermarkTracker`; a source joins the trackers of its splits in :class:`CombinedWatermarks`.

All is pure: times of the clock are handed in, results are returned.  No watermark is in snapshots:
after a restore event time starts anew; only what a generator has learned is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.metrics import Counter
from penstock.event_time.future_timestamps import AheadGuard
from penstock.event_time.watermark_generators import (
    WatermarkGenerator,
    WatermarkOutput,
)
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.event_time.watermark_valve import NOTHING, ValveResult, WatermarkValve

_NO_TIMES = np.full(1, MIN_TIME, np.int64)
_NO_TIMES.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Something to send in the middle of a batch, after its first ``row`` records."""

    row: int
    result: ValveResult


class IdlenessTimer:
    """Tells when a stream has been silent for longer than a timeout.

    Time counts from the first check that saw no activity, and the stream is idle at the first check
    *more than* the timeout later.  While ``paused``, time stands still, and between two checks if
    nobody asked the stream for records.
    """

    __slots__ = ("_active", "_checked_ms", "_quiet_since", "_timeout", "asked", "paused")

    def __init__(self, timeout_ms: int) -> None:
        if timeout_ms <= 0:
            raise ConfigError(f"the idle timeout must be greater than zero, it is {timeout_ms} ms")
        self._timeout = timeout_ms
        self._active = False
        self._quiet_since: int | None = None
        self._checked_ms = 0
        self.asked = True
        self.paused = False

    def activity(self) -> None:
        """A record was seen."""
        self._active = True

    def check(self, now_ms: int) -> bool:
        """Whether the stream is idle now."""
        passed, self._checked_ms = now_ms - self._checked_ms, now_ms
        if self._active:
            self._active = False
            self._quiet_since = None
            return False
        if self._quiet_since is None:
            self._quiet_since = now_ms
            return False
        if self.paused or not self.asked:
            self._quiet_since += passed
        return now_ms - self._quiet_since > self._timeout


class WatermarkTracker:
    """Runs one generator, with idleness and the guard against timestamps from the future.

    The owner calls :meth:`on_batch` for every batch, after giving it timestamps, and :meth:`probe`
    each watermark interval.  The ``now_ms`` of a probe should stand still while the task is
    backpressured, or a blocked stream would look idle.  ``ahead`` counts what the guard refuses.
    """

    __slots__ = (
        "_ahead",
        "_generator",
        "_guard",
        "_out",
        "_per_event",
        "_sent",
        "_sent_idle",
        "since_growth",
        "timer",
    )

    def __init__(self, strategy: WatermarkStrategy, ahead: Counter | None = None) -> None:
        self._generator = strategy.create_generator()
        self._ahead = Counter() if ahead is None else ahead
        self._guard = None if strategy.max_ahead_ms is None else AheadGuard(strategy.max_ahead_ms)
        self.since_growth = 0
        """Records seen since the watermark last grew."""
        self._per_event = type(self._generator).on_batch is WatermarkGenerator.on_batch
        self._out = WatermarkOutput()
        self._sent: EventTime = MIN_TIME
        self._sent_idle = False
        timeout = strategy.idle_timeout_ms
        self.timer = None if timeout is None else IdlenessTimer(timeout)

    @property
    def is_idle(self) -> bool:
        """Whether the stream was idle at the last probe."""
        return self._out.idle

    @property
    def watermark(self) -> EventTime:
        """The last watermark."""
        return self._out.watermark

    @property
    def bound_ms(self) -> int | None:
        """The generator's bound, if it is one that changes."""
        return self._generator.bound_ms()

    def snapshot(self) -> Any:
        """What the generator has learned; ``None`` if nothing."""
        return self._generator.snapshot()

    def restore(self, learned: Any) -> None:
        """Take back what ``snapshot`` gave."""
        if learned is not None:
            self._generator.restore(learned)

    def on_batch(self, batch: Batch, now_ms: int = 0) -> Sequence[Cut]:
        """Records were seen; what a per-record generator wants to be sent between them.

        For each cut, in order, send the records up to ``cut.row`` first; empty for generators that
        speak only when probed.  ``now_ms`` is for the guard, if there is one.
        """
        if not len(batch):
            return ()
        if self.timer is not None:
            self.timer.activity()
        self.since_growth += len(batch)
        times = _NO_TIMES if batch.times is None else batch.times
        believed = None
        if self._guard is not None and batch.times is not None:
            believed = self._guard.believed(times, now_ms)
            if believed is not None:
                self._ahead.inc(len(batch) - int(believed.sum()))
                times = times[believed]
        if self._per_event:
            return self._each(batch, believed)
        if len(times):
            self._generator.on_batch(times)
        return ()

    def probe(self, now_ms: int) -> ValveResult:
        """The watermark interval has passed: the watermark if it grew, idleness if it changed."""
        if self.timer is not None and self.timer.check(now_ms):
            self._out.mark_idle()
        else:
            self._generator.on_periodic_emit(self._out)
        return self._changes()

    def _each(self, batch: Batch, believed: npt.NDArray[np.bool_] | None) -> list[Cut]:
        cuts = []
        on_event, out = self._generator.on_event, self._out
        for row, (value, time) in enumerate(zip(batch.to_rows(), batch.time_list(), strict=True), start=1):
            if believed is not None and not believed[row - 1]:
                continue
            on_event(value, time, out)
            if out.watermark > self._sent or out.idle is not self._sent_idle:
                cuts.append(Cut(row, self._changes()))
        return cuts

    def _changes(self) -> ValveResult:
        out = self._out
        grown = out.watermark if out.watermark > self._sent else None
        if grown is not None:
            self.since_growth = 0
        toggled = out.idle if out.idle is not self._sent_idle else None
        self._sent, self._sent_idle = out.watermark, out.idle
        return NOTHING if grown is None and toggled is None else ValveResult(grown, toggled)


class CombinedWatermarks:
    """The watermark of a source subtask: one tracker per split, joined by the valve.

    Called like a tracker.  While it has no split, a timer of its own makes the subtask idle (if the
    strategy has idleness), so a subtask without work does not hold the job's time back.
    """

    def __init__(self, strategy: WatermarkStrategy, ahead: Counter | None = None) -> None:
        self._strategy = strategy
        self._ahead = ahead
        self._valve = WatermarkValve(0)
        self._splits: dict[str, tuple[int, WatermarkTracker]] = {}
        self._without_splits: IdlenessTimer | None = None
        self._told_idle = False
        self.expects_splits = False
        """Whether splits are on their way: without any it is not idle then."""

    @property
    def watermark(self) -> EventTime:
        """The last combined watermark."""
        return self._valve.watermark

    @property
    def is_idle(self) -> bool:
        """Whether the subtask was idle at the last answer."""
        return self._told_idle

    def add_split(self, split_id: str, learned: Any = None) -> ValveResult:
        """A split was assigned: the combined watermark waits for its first one."""
        tracker = WatermarkTracker(self._strategy, self._ahead)
        tracker.restore(learned)
        self._splits[split_id] = (self._valve.add(), tracker)
        self._without_splits = None
        return self._told(None)

    def remove_split(self, split_id: str) -> ValveResult:
        """A split has ended or moved away: the others go on without it."""
        channel, _ = self._splits.pop(split_id)
        grown = self._valve.remove(channel).watermark
        if self.expects_splits and not self._splits:
            self._valve.idle = False
        return self._told(grown)

    def pause_split(self, split_id: str, paused: bool) -> None:
        """Alignment holds a split back, or lets it go: its idle time stands still meanwhile."""
        timer = self._splits[split_id][1].timer
        if timer is not None:
            timer.paused = paused

    def ask_split(self, split_id: str, asked: bool) -> None:
        """Whether a split was asked for records since the last probe: if not, its silence says nothing."""
        timer = self._splits[split_id][1].timer
        if timer is not None:
            timer.asked = asked

    def split_watermark(self, split_id: str) -> EventTime:
        """The watermark of one split, for alignment."""
        return self._splits[split_id][1].watermark

    def tracker(self, split_id: str) -> WatermarkTracker:
        """The tracker of one split."""
        return self._splits[split_id][1]

    def slowest(self) -> tuple[str, WatermarkTracker] | None:
        """The split that holds the combined watermark back; ``None`` if none does."""
        active = [
            (split_id, tracker) for split_id, (_, tracker) in self._splits.items() if not tracker.is_idle
        ]
        return min(active, key=lambda each: each[1].watermark, default=None)

    def on_batch(self, split_id: str, batch: Batch, now_ms: int = 0) -> Sequence[Cut]:
        """Records of a split were seen; what must be sent between them."""
        channel, tracker = self._splits[split_id]
        own = tracker.on_batch(batch, now_ms)
        if not own:
            return ()
        joined = [Cut(cut.row, self._told(self._apply(channel, cut.result))) for cut in own]
        return [cut for cut in joined if cut.result is not NOTHING]

    def probe(self, now_ms: int) -> ValveResult:
        """The watermark interval has passed; what to send on, the watermark first."""
        if not self._splits:
            return self._probe_without_splits(now_ms)
        answers = [(channel, tracker.probe(now_ms)) for channel, tracker in self._splits.values()]
        changed = [answer for answer in answers if answer[1] is not NOTHING]
        changed.sort(key=_waking_first)
        grown = None
        for channel, change in changed:
            later = self._apply(channel, change)
            grown = grown if later is None else later
        return self._told(grown)

    def _probe_without_splits(self, now_ms: int) -> ValveResult:
        timeout = self._strategy.idle_timeout_ms
        if timeout is None or self.expects_splits:
            return NOTHING
        if self._without_splits is None:
            self._without_splits = IdlenessTimer(timeout)
        if self._without_splits.check(now_ms):
            self._valve.idle = True
        return self._told(None)

    def _apply(self, channel: int, changed: ValveResult) -> EventTime | None:
        valve = self._valve
        if changed.idle_changed is False:
            valve.on_active(channel)
        grown = None if changed.watermark is None else valve.on_watermark(channel, changed.watermark)
        if changed.idle_changed is True:
            flushed = valve.on_idle(channel).watermark
            grown = grown if flushed is None else flushed
        return grown

    def _told(self, grown: EventTime | None) -> ValveResult:
        toggled = self._valve.idle if self._valve.idle is not self._told_idle else None
        self._told_idle = self._valve.idle
        return NOTHING if grown is None and toggled is None else ValveResult(grown, toggled)


def _waking_first(answer: tuple[int, ValveResult]) -> tuple[int, int]:
    """Order in which the changes of one probe reach the valve, so that they count as simultaneous.

    A split that wakes up must rejoin the minimum before another one moves it past its watermark, and
    one that goes idle must leave after the others have moved.
    """
    change = answer[1]
    rank = 1 if change.idle_changed is None else 2 * change.idle_changed
    return rank, MIN_TIME if change.watermark is None else change.watermark
