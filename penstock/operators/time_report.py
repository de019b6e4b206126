"""Tells the coordinator where event time is, and what holds it back.

Shared by the operators that make watermarks.  The coordinator aligns sources by these reports and warns
when event time stands still (``coordinator/watermark_alignment.py``).
"""

from __future__ import annotations

from penstock.core.ids import EventTime
from penstock.core.messages import WatermarkReport
from penstock.event_time.watermark_tracker import WatermarkStrategy, WatermarkTracker
from penstock.operators.operator import OperatorContext

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

    def report(self, watermark: EventTime, counts: bool, reading: bool, holder: str) -> None:
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
