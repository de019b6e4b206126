"""Event time in the middle of a stream: ``assign_timestamps_and_watermarks``.

:class:`WatermarkEmitter` and :class:`TimeReporter` are shared with the source operator.  The former sends
what the trackers of :mod:`penstock.event_time.watermark_tracker` answer, and keeps the watermark interval.
The latter tells the coordinator where event time is, and what holds it back: sources are aligned by these
reports, and users warned when event time stands still (``coordinator/watermark_alignment.py``).

Event times that can hardly be meant are said once, by the place that makes watermarks of them:

* A watermark more than a day ahead of the clock: one record from the year 2100 makes all others late.
* Seconds where milliseconds are expected: read as milliseconds, today's are in January 1970.

Programs that count event time from zero, as tests and examples do, are left alone: times are taken for
seconds only if all of the first ones lie, as seconds, within twenty years of the clock.  As milliseconds that
is two to four weeks after zero, where no count from zero begins.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from functools import partial

from penstock.core.batch import Batch, Times
from penstock.core.errors import GraphError
from penstock.core.ids import MAX_TIME, Epoch, EventTime
from penstock.core.messages import WatermarkReport
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.event_time.watermark_tracker import Cut, WatermarkTracker
from penstock.event_time.watermark_valve import ValveResult
from penstock.operators.event_times import EventTimes
from penstock.operators.operator import Operator, OperatorContext
from penstock.state.operator_state import ListMode

FAR_AHEAD = "far ahead"
SECONDS = "seconds"
_DAY_MS = 86_400_000
_NEAR_S = 20 * 365 * 86_400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FINER = ((1_000, "microseconds"), (1_000_000, "nanoseconds"))


class OddTimes:
    """Looks at the first records, and at each watermark; a comparison each."""

    def __init__(self, ctx: OperatorContext, now_ms: int) -> None:
        self._ctx = ctx
        self._now_ms = now_ms
        self._limit = now_ms + _DAY_MS
        self.seen = False
        """Whether there were records with times."""

    def first(self, times: Times | None) -> None:
        """The first records have come."""
        if times is None:
            return
        self.seen = True
        lowest, highest = int(times.min()), int(times.max())
        if looks_like_seconds(lowest, self._now_ms) and looks_like_seconds(highest, self._now_ms):
            self._ctx.remark(
                SECONDS,
                f"event times are milliseconds, but the first ones here ({lowest:,} to {highest:,}) look "
                f"like seconds: as milliseconds they are {_moment(lowest)}, as seconds "
                f"{_moment(lowest * 1000)}. "
                "Have the timestamp assigner multiply them by 1000",
            )

    def watermark(self, time: EventTime) -> None:
        """Event time has come this far."""
        if time <= self._limit or time == MAX_TIME:
            return
        now = self._ctx.clock.now_ms()
        self._limit = now + _DAY_MS
        if time > self._limit:
            self._limit = MAX_TIME  # once is enough
            self._ctx.remark(FAR_AHEAD, _ahead(time, now))


def looks_like_seconds(time: int, now_ms: int) -> bool:
    """Whether a time is within twenty years of the clock if it is taken for seconds.

    A clock that itself is in the first years of the epoch is a test's.
    """
    return now_ms > 1000 * _NEAR_S and abs(time - now_ms // 1000) < _NEAR_S


def _ahead(time: int, now_ms: int) -> str:
    for factor, unit in _FINER:
        if abs(time // factor - now_ms) < 1000 * _NEAR_S:
            return (
                f"event times are milliseconds, but the watermark, {time:,}, looks like {unit}: as those it "
                f"would be {_moment(time // factor)}. Have the timestamp assigner divide them by {factor:,}"
            )
    days = (time - now_ms) // _DAY_MS
    return (
        f"the watermark is at {_moment(time)}, {days:,} days ahead of the clock: records of the present are "
        "late from here on, and windows and joins drop them. If a wrong timestamp has done that, filter such "
        "records out, or give the watermark strategy with_max_ahead, which does not believe them; if event "
        "time is meant to be ahead, all is well"
    )


def _moment(time: int) -> str:
    """A readable event time; plain milliseconds if it is outside the calendar."""
    try:
        return (_EPOCH + dt.timedelta(milliseconds=time)).isoformat(" ", "seconds")
    except OverflowError:
        return f"{time:,} ms"


REPORT_INTERVAL_MS = 1000
_NO_SPLIT = (
    "it has no split to read; lower the parallelism of the source to the number of its splits, or give "
    "its watermark strategy with_idleness"
)


class TimeReporter:
    """Sends a report at most once per interval: that of the alignment group, or a second.

    Silent where nobody listens (a harness), and for strategies that make no watermarks.
    """

    def __init__(self, ctx: OperatorContext, strategy: WatermarkStrategy) -> None:
        alignment = strategy.alignment
        self._send = ctx.runtime.report_watermark if strategy.makes_watermarks else None
        self._ctx = ctx
        self._group = alignment.group if alignment is not None else None
        self._interval = alignment.update_ms if alignment is not None else REPORT_INTERVAL_MS
        self._due_ms = 0
        self._blocked_ms = 0
        self._was_blocked = False

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._send is not None

    def due(self, now_ms: int) -> bool:
        """Whether to report now; if so, the next interval begins."""
        if self._send is None or now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._interval
        blocked = self._ctx.blocked_ms()
        self._was_blocked = 2 * (blocked - self._blocked_ms) > self._interval
        self._blocked_ms = blocked
        return True

    def report(
        self,
        watermark: EventTime,
        counts: bool,
        reading: bool,
        holder: str,
        split: str | None = None,
        given: int | None = None,
    ) -> None:
        """Send a report; where the task is backpressured, that is what holds event time back."""
        if self._send is None:
            return
        if self._was_blocked:
            holder = "it is backpressured: a step behind it takes records more slowly than they come"
        info = self._ctx.info
        self._send(
            WatermarkReport(
                self._ctx.operator_id,
                info.operator_name,
                info.subtask,
                watermark,
                counts,
                reading,
                holder,
                self._group,
                split,
                given,
                self._was_blocked,
            )
        )


def describe_holder(slowest: tuple[str, WatermarkTracker] | None) -> str:
    """In words, why the watermark of a source subtask is where it is."""
    if slowest is None:
        return _NO_SPLIT
    split_id, tracker = slowest
    return f"split {split_id!r}, from which {describe_records(tracker)}"


def describe_records(tracker: WatermarkTracker) -> str:
    """What came since the watermark last grew."""
    if tracker.since_growth:
        return f"{tracker.since_growth:,} records came since that do not advance it"
    return (
        "no record came since" if tracker.timer is not None else "no record came since (with_idleness helps)"
    )


LEARNED_STATE = "learned-watermarks"
"""Part of the snapshot format."""
AHEAD_COUNTER = "numRecordsAhead"
"""Records that did not move the watermark because their timestamps lie too far ahead."""
BOUND_GAUGE = "watermarkBoundMs"
"""How far the watermarks of a learning generator are behind the largest timestamp."""


class WatermarkEmitter:
    """Sends records with the watermarks between them, and says when to probe next.

    The interval is ``OperatorRuntime.auto_watermark_interval_ms``; 0 means never.
    """

    def __init__(self, ctx: OperatorContext, strategy: WatermarkStrategy) -> None:
        self._out = ctx.out
        self._times = EventTimes(ctx.metrics) if strategy.makes_watermarks else None
        self._interval = ctx.runtime.auto_watermark_interval_ms
        self.next_ms: int | None = ctx.clock.now_ms() + self._interval if self._interval > 0 else None
        self._ctx = ctx
        self._blocked_before = 0
        self._unseen_ms = 0
        self.quiet_ms: int = ctx.clock.now_ms()
        self._odd = OddTimes(ctx, self.quiet_ms)
        """The time by which silence is measured.

        It stands still while the task could not have seen a record: backpressured, or too busy to be in
        time for the probe.
        """

    def due(self, now_ms: int) -> bool:
        """Whether the interval has passed; if so, the next one begins."""
        if self.next_ms is None or now_ms < self.next_ms:
            return False
        blocked = self._ctx.blocked_ms()
        self._unseen_ms += max(now_ms - self.next_ms, blocked - self._blocked_before)
        self._blocked_before = blocked
        self.quiet_ms = now_ms - self._unseen_ms
        self.next_ms = now_ms + self._interval
        return True

    def barrier(self) -> None:
        """A snapshot is taken."""
        if self._times is not None:
            self._times.barrier()

    def stop(self) -> None:
        """Never probe again: event time has ended."""
        self.next_ms = None

    def send(self, result: ValveResult) -> None:
        """Pass on a change: a stream must be active to be heard, so waking up goes first."""
        if result.idle_changed is False:
            self._out.idle(False)
        if result.watermark is not None:
            self._odd.watermark(result.watermark)
            self._out.watermark(result.watermark)
        if result.idle_changed is True:
            self._out.idle(True)

    def emit(self, batch: Batch, cuts: Sequence[Cut]) -> None:
        """Send records, each cut right behind the record that caused it."""
        if self._times is not None:
            self._times.saw(batch.times)
        if not self._odd.seen:
            self._odd.first(batch.times)
        start = 0
        for cut in cuts:
            if cut.row > start:
                self._out.emit(batch.slice(start, cut.row))
                start = cut.row
            self.send(cut.result)
        if start == 0:
            self._out.emit(batch)
        elif start < len(batch):
            self._out.emit(batch.slice(start, len(batch)))


def stamp(batch: Batch, strategy: WatermarkStrategy) -> Batch:
    """``batch`` with the event times the strategy finds in it, or as it was if it looks for none."""
    if strategy.extractor is None:
        return batch
    return Batch(
        rows=batch.rows,
        columns=batch.columns,
        times=strategy.extractor.times(batch),
        keys=batch.keys,
        key_columns=batch.key_columns,
    )


class AssignTimestampsOperator(Operator):
    """Gives records new times and makes watermarks from them.

    Watermarks and idleness from upstream end here, except the one that says all input has ended.

    State: the union list ``learned-watermarks``, only for generators that learn: (what was learned,
    subtask, parallelism).  At another parallelism everybody takes what all have learned.
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._tracker = WatermarkTracker(self._strategy, ctx.metrics.counter(AHEAD_COUNTER))
        self._emitter = WatermarkEmitter(ctx, self._strategy)
        self._reporter = TimeReporter(ctx, self._strategy)
        self._learns = self._tracker.snapshot() is not None
        if self._learns:
            self._restore(ctx)
            ctx.metrics.gauge(BOUND_GAUGE, lambda: float(self._tracker.bound_ms or 0))

    def _restore(self, ctx: OperatorContext) -> None:
        self._state = ctx.operator_state.list_state(LEARNED_STATE, ListMode.UNION)
        me = (ctx.info.subtask, ctx.info.parallelism)
        for learned, subtask, parallelism in self._state.get():
            if parallelism != ctx.info.parallelism or (subtask, parallelism) == me:
                self._tracker.restore(learned)

    def prepare_barrier(self, epoch: Epoch) -> None:
        self._emitter.barrier()
        if self._learns:
            info = self.ctx.info
            self._state.update([(self._tracker.snapshot(), info.subtask, info.parallelism)])

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if len(batch):
            stamped = stamp(batch, self._strategy)
            now = 0 if self._strategy.max_ahead_ms is None else self.ctx.clock.now_ms()
            self._emitter.emit(stamped, self._tracker.on_batch(stamped, now))

    def on_watermark(self, time: EventTime) -> None:
        if time == MAX_TIME:
            self._emitter.stop()
            self._reporter.report(time, counts=False, reading=False, holder="")
            self.ctx.out.watermark(time)

    def on_idle(self, is_idle: bool) -> None:
        """Upstream idleness says nothing about the times assigned here."""

    def next_processing_time(self) -> int | None:
        return self._emitter.next_ms

    def on_processing_time(self, now_ms: int) -> None:
        if self._emitter.due(now_ms):
            tracker = self._tracker
            self._emitter.send(tracker.probe(self._emitter.quiet_ms))
            if self._reporter.due(now_ms):
                holder = f"its input, from which {describe_records(tracker)}"
                counts = not tracker.is_idle
                self._reporter.report(tracker.watermark, counts, True, holder, None, tracker.since_growth)


def assigning(strategy: WatermarkStrategy) -> Callable[[], Operator]:
    """What makes the operator of ``assign_timestamps_and_watermarks``."""
    if strategy.alignment is not None:
        raise GraphError(
            "watermark alignment works by pausing splits of sources; give the strategy that has "
            "with_watermark_alignment to from_source, not to assign_timestamps_and_watermarks"
        )
    return partial(AssignTimestampsOperator, strategy)
