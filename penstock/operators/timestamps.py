"""Event time in the middle of a stream: ``assign_timestamps_and_watermarks``.

Also :class:`WatermarkEmitter`, which this operator and the source operator share: it sends what the
trackers of :mod:`penstock.event_time.watermark_tracker` answer, and keeps the watermark interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.core.batch import Batch
from penstock.core.errors import GraphError
from penstock.core.ids import MAX_TIME, Epoch, EventTime
from penstock.event_time.watermark_tracker import Cut, ValveResult, WatermarkStrategy, WatermarkTracker
from penstock.operators.odd_timestamps import OddTimes
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.time_report import TimeReporter, describe_records
from penstock.state.operator_state import ListMode

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

    def __init__(self, ctx: OperatorContext) -> None:
        self._out = ctx.out
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
        self._emitter = WatermarkEmitter(ctx)
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
                self._reporter.report(tracker.watermark, not tracker.is_idle, True, holder)


def assigning(strategy: WatermarkStrategy) -> Callable[[], Operator]:
    """What makes the operator of ``assign_timestamps_and_watermarks``."""
    if strategy.alignment is not None:
        raise GraphError(
            "watermark alignment works by pausing splits of sources; give the strategy that has "
            "with_watermark_alignment to from_source, not to assign_timestamps_and_watermarks"
        )
    return partial(AssignTimestampsOperator, strategy)
