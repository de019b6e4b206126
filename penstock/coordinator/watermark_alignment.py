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
from heapq import heapify, heappop, heappush

from penstock.coordinator.events import Instruction, Send, Stalled
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime, MonoMs, OperatorId, SlotId
from penstock.core.messages import AlignWatermarks, WatermarkReport

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SLACK = 100


_Place = tuple[OperatorId, int]


class _Slowest:
    """The report with the lowest watermark of those that count here, without looking at all for each."""

    def __init__(self) -> None:
        self._reports: dict[_Place, WatermarkReport] = {}
        self._heap: list[tuple[EventTime, _Place]] = []
        """What counts, and things that are said no more."""

    def take(self, place: _Place, report: WatermarkReport, counts: bool) -> None:
        """A place has reported."""
        before = self._reports.pop(place, None)
        if counts:
            self._reports[place] = report
            if before is None or before.watermark != report.watermark:
                heappush(self._heap, (report.watermark, place))
        if len(self._heap) > 2 * len(self._reports) + _SLACK:
            self._heap = [(one.watermark, of) for of, one in self._reports.items()]
            heapify(self._heap)

    def lowest(self) -> WatermarkReport | None:
        """The slowest; ``None`` if nobody counts."""
        while self._heap:
            watermark, place = self._heap[0]
            report = self._reports.get(place)
            if report is not None and report.watermark == watermark:
                return report
            heappop(self._heap)
        return None


class WatermarkAligner:
    """What the places that make watermarks said in the current attempt."""

    def __init__(self, stall_ms: int) -> None:
        self._stall_ms = stall_ms
        self.restart()

    def restart(self) -> None:
        """A new attempt: event time starts anew."""
        self._all = _Slowest()
        self._groups: dict[str, _Slowest] = {}
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
        place = report.operator_id, report.subtask
        self._all.take(place, report, report.counts)
        out: list[Instruction] = []
        if report.group is not None:
            group = self._groups.setdefault(report.group, _Slowest())
            group.take(place, report, report.counts and report.reading)
            if is_complete:
                lowest = group.lowest()
                slowest = MAX_TIME if lowest is None else lowest.watermark
                out.append(Send(slot, AlignWatermarks(report.group, slowest)))
        return out + self._watch(now)

    def _watch(self, now: MonoMs) -> list[Instruction]:
        holder = self._all.lowest()
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
