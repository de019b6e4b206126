"""Interval join: pairs of equal key whose times are close.

A left record at time ``l`` meets the right records at ``l + lower`` up to ``l + upper``.  Both sides are
kept as long as a partner may still come; a timer per key and side then drops what has expired.  A pair's
results have the later of the two times.  A record older than the watermark is late.

In outer joins a record that expires without ever having met a partner appears at that moment, with the
time of its expiry, which no watermark downstream has passed yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.copying import itself
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.join.buffers import SideBuffer
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.meeting import Item, Meet, Pairing
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import LateRecords, Results
from penstock.operators.user_function import FunctionOperator

_AT_ONCE = 16
"""How many partners a record meets before it is looked whether enough results are gathered."""


class Side(IntEnum):
    """Which input a record came from."""

    LEFT = 0
    RIGHT = 1


@dataclass(frozen=True, slots=True)
class Interval:
    """How far a right record may be from its left one, both ends included, in milliseconds."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ConfigError(
                f"the interval from {self.lower} to {self.upper} ms is empty; between(lower, upper) needs "
                "lower <= upper, also after leaving out exclusive bounds"
            )

    def seen_from(self, side: Side) -> tuple[int, int]:
        """Where partners of a record of ``side`` are, relative to its time."""
        return (self.lower, self.upper) if side is Side.LEFT else (-self.upper, -self.lower)

    def stay(self, side: Side) -> int:
        """How long after its time a record of ``side`` may still meet a partner that is not late."""
        return max(0, self.upper if side is Side.LEFT else -self.lower)


class IntervalJoinOperator(FunctionOperator):
    """Joins two keyed streams of rows.

    ``function``: a ``ProcessJoinFunction``, a join function, or a function of two records.  Late records
    go to the side outputs ``late_tags`` (left, right); without one they are counted as dropped.
    """

    def __init__(
        self,
        function: Any,
        interval: Interval,
        how: JoinKind = JoinKind.INNER,
        late_tags: tuple[str | None, str | None] = (None, None),
    ) -> None:
        super().__init__(function, keyed=True)
        self._interval = interval
        self._outer = (how.keeps_left, how.keeps_right)
        self._late_tags = late_tags
        self._pairing = Pairing(function)

    def open(self, ctx: OperatorContext) -> None:
        # Asking for the timers here makes the engine tell us the watermark from the start.
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        tables = [ctx.keyed.table(f"_join/{side.name.lower()}") for side in Side]
        self._buffers = [SideBuffer(table, ctx.own) for table in tables]
        self._late = LateRecords(ctx, self._late_tags)
        self._gathered = Results(ctx)
        super().open(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.work(self._take_all(batch, Side(input_index)))

    def _in_time(self, batch: Batch, side: Side) -> Batch:
        """The batch without its late records, which are put aside."""
        times = batch.times
        if times is None or (len(times) and times.min() == MIN_TIME):
            first = 0 if times is None else int(times.argmin())
            self.blame(batch.slice(first, first + 1).to_rows()[0])
            raise _no_time()
        late = times < self._timers.watermark
        if not late.any():
            return batch
        dropped = batch.take(np.flatnonzero(late))
        for value, time in zip(dropped.to_rows(), dropped.time_list(), strict=True):
            self._late.add(side, value, time)
        return batch.take(np.flatnonzero(~late))

    def _take_all(self, batch: Batch, side: Side) -> Iterator[None]:
        """Let each record meet its partners, and store it."""
        if not len(batch):
            return
        batch = self._in_time(batch, side)
        lower, upper = self._interval.seen_from(side)
        past, stay, namespace = upper + 1, self._interval.stay(side), int(side)
        mine, others = self._buffers[side], self._buffers[1 - side]
        keep, put, find = mine.table.own, mine.table.put, others.table.peek
        register = self._timers.event.register
        meet, gathered, scope, marks = self._meeting(side), self._gathered, self._scope, self._outer[1 - side]
        unnoted = not self._outer[side]  # an outer join that goes on from here shall not say they met nobody
        value = None
        try:
            for key, value, time in zip(batch.key_list(), batch.to_rows(), batch.time_list(), strict=True):
                found, has_met, earliest = find(key), unnoted, time + lower
                if found is not None and found[-1][0] >= earliest:
                    # A tuple that is nothing but a time sorts before all items of that time.
                    first = bisect_left(found, (earliest,))
                    if found[first][0] < time + past:
                        partners = found[first : bisect_left(found, (time + past,), first)]
                        has_met, scope.key = True, key
                        if marks:
                            others.mark(key, first, partners)
                        if len(partners) > _AT_ONCE:
                            yield from self._meet_many(meet, value, time, partners)
                        else:
                            meet(value, time, partners)
                        if gathered.is_full:
                            gathered.flush()
                            yield
                kept = keep(key)
                if kept is None:
                    put(key, [(time, value, has_met)])
                    register(time + stay, key, namespace)
                elif kept[-1][0] <= time:
                    kept.append((time, value, has_met))
                else:
                    at = bisect_left(kept, (time + 1,))
                    kept.insert(at, (time, value, has_met))
                    if not at:
                        register(time + stay, key, namespace)
        except Exception:
            self.blame(value)
            raise
        self.flush_timers()
        self._late.flush()

    def _meeting(self, side: Side) -> Meet:
        own, guard = self.ctx.own, self._buffers[1 - side].guard
        return self._pairing.meeting(self._gathered, side is Side.LEFT, own, guard if own is itself else own)

    def _meet_many(self, meet: Meet, value: Any, time: int, partners: list[Item]) -> Iterator[None]:
        for start in range(0, len(partners), _AT_ONCE):
            meet(value, time, partners[start : start + _AT_ONCE])
            if self._gathered.is_full:
                self._gathered.flush()
                yield

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        """Records of one key and side have expired; all those that the watermark has passed go at once."""
        side = Side(namespace)
        stay = self._interval.stay(side)
        dropped, first = self._buffers[side].drop(key, self._timers.watermark - stay)
        if first is not None:
            self._timers.event.register(first + stay, key, namespace)
        return self._all_alone(side, key, dropped) if self._outer[side] and dropped else None

    def _all_alone(self, side: Side, key: Any, dropped: Iterable[Any]) -> Iterator[None]:
        stay = self._interval.stay(side)
        self._scope.key = key
        for item_time, value, met in dropped:
            if not met:
                self._alone(side, self._buffers[side].guard(value), item_time, item_time + stay)
            if self._gathered.is_full:
                self._gathered.flush()
                yield

    def _alone(self, side: Side, value: Any, value_time: int, time: int) -> None:
        if side is Side.LEFT:
            self._pairing.call(self._gathered, value, None, value_time, MIN_TIME, time)
        else:
            self._pairing.call(self._gathered, None, value, MIN_TIME, value_time, time)

    def has_enough(self) -> bool:
        return self._gathered.is_full

    def flush_timers(self) -> None:
        self._gathered.flush()


def _no_time() -> TimestampError:
    return TimestampError(
        "an interval join needs a timestamp on every record, and one has none; call "
        "assign_timestamps_and_watermarks on both streams before key_by",
        code=Code.NO_TIMESTAMP,
    )
