"""Where event time is in the whole job: aligns sources, and notices when it stands still.  Pure.

Each place that makes watermarks reports about once a second.  The answer to a member of an alignment
group is the watermark of the group's slowest; idle and finished subtasks and those without splits hold
nobody back.  Each source knows its own drift.

The job's event time is as far as the slowest place that counts.  If that does not move for
``stall_ms``, a :class:`~penstock.coordinator.events.Stalled` says so once and names who holds it; another
one follows when it moves again.
"""

from __future__ import annotations

import datetime as dt

from penstock.coordinator.events import Instruction, Send, Stalled
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime, MonoMs, OperatorId, SlotId
from penstock.core.messages import AlignWatermarks, WatermarkReport

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class WatermarkAligner:
    """What the places that make watermarks said in the current attempt."""

    def __init__(self, stall_ms: int) -> None:
        self._stall_ms = stall_ms
        self.restart()

    def restart(self) -> None:
        """A new attempt: event time starts anew."""
        self._reports: dict[tuple[OperatorId, int], WatermarkReport] = {}
        self._slowest: EventTime | None = None
        self._moved_at = MonoMs(0)
        self._stalled = False

    def on_report(
        self, slot: SlotId, report: WatermarkReport, now: MonoMs, is_complete: bool = True
    ) -> list[Instruction]:
        """A place has reported: the answer to it, and a word to users if something is wrong.

        Until the attempt ``is_complete`` a slower member may not have reported yet: there is no answer,
        and sources wait for their first one.
        """
        self._reports[report.operator_id, report.subtask] = report
        out: list[Instruction] = []
        if report.group is not None and is_complete:
            out.append(Send(slot, AlignWatermarks(report.group, self._slowest_of(report.group))))
        return out + self._watch(now)

    def _slowest_of(self, group: str) -> EventTime:
        members = (report for report in self._reports.values() if report.group == group)
        return min((each.watermark for each in members if each.counts and each.reading), default=MAX_TIME)

    def _watch(self, now: MonoMs) -> list[Instruction]:
        counting = [report for report in self._reports.values() if report.counts]
        holder = min(counting, key=lambda report: report.watermark, default=None)
        slowest = None if holder is None else holder.watermark
        if holder is None or slowest != self._slowest:
            self._slowest, self._moved_at = slowest, now
            return self._moves_again()
        if self._stalled or self._stall_ms <= 0 or now - self._moved_at < self._stall_ms:
            return []
        self._stalled = True
        return [Stalled(_in_words(holder, now - self._moved_at))]

    def _moves_again(self) -> list[Instruction]:
        if not self._stalled:
            return []
        self._stalled = False
        return [Stalled(None)]


def _in_words(holder: WatermarkReport, for_ms: int) -> str:
    what = f"for {for_ms / 1000:.0f} s there has been no watermark"
    if holder.watermark > MIN_TIME:
        what = f"the watermark has stood at {_moment(holder.watermark)} for {for_ms / 1000:.0f} s"
    return f"{what}; held back by {holder.step!r}, subtask {holder.subtask}: {holder.holder}"


def _moment(time: EventTime) -> str:
    """A readable event time; plain milliseconds if it is outside the calendar."""
    try:
        return (_EPOCH + dt.timedelta(milliseconds=time)).isoformat(" ", "seconds")
    except OverflowError:
        return f"{time} ms"
