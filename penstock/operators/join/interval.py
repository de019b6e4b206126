"""Interval join: pairs of equal key whose times are close.

A left record at time ``l`` meets the right records at ``l + lower`` up to ``l + upper``.  Both sides are
kept as long as a partner may still come; a timer per key and side then drops what has expired.  A pair's
results have the later of the two times.  A record older than the watermark is late.

In outer joins a record that expires without ever having met a partner appears at that moment, with the
time of its expiry, which no watermark downstream has passed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.join.buffers import SideBuffer
from penstock.operators.join.functions import JoinKind, ProcessJoinFunction, pair_call
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import LateRecords, Results
from penstock.operators.user_function import FunctionOperator


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


class _Context(ProcessJoinFunction.Context):
    __slots__ = ("left", "right", "time")

    def __init__(self) -> None:
        self.left: int = MIN_TIME
        self.right: int = MIN_TIME
        self.time: int = MIN_TIME

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return self.time


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
        self._plain = None if isinstance(function, ProcessJoinFunction) else pair_call(function)

    def open(self, ctx: OperatorContext) -> None:
        # Asking for the timers here makes the engine tell us the watermark from the start.
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        tables = [ctx.keyed.table(f"_join/{side.name.lower()}") for side in Side]
        self._buffers = [SideBuffer(table, ctx.own) for table in tables]
        self._late = LateRecords(ctx, self._late_tags)
        self._context = _Context()
        self._gathered = Results(ctx)
        super().open(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.work(self._take_all(batch, Side(input_index)))

    def _take_all(self, batch: Batch, side: Side) -> Iterator[None]:
        take = self._taking(side)
        watermark = self._timers.watermark
        value = None
        try:
            for key, value, time in zip(batch.key_list(), batch.to_rows(), batch.time_list(), strict=True):
                if time == MIN_TIME:
                    raise _no_time()
                if time < watermark:
                    self._late.add(side, value, time)
                else:
                    yield from take(key, value, time)
        except Exception:
            self.blame(value)
            raise
        self.flush_timers()
        self._late.flush()

    def _taking(self, side: Side) -> Callable[[Any, Any, int], Iterator[None]]:
        """What to do with each record of a side: let it meet its partners, and store it."""
        lower, upper = self._interval.seen_from(side)
        stay = self._interval.stay(side)
        own, others = self._buffers[side], self._buffers[1 - side]
        is_left, marks = side is Side.LEFT, self._outer[1 - side]
        scope, pair, register = self._scope, self._pair, self._timers.event.register
        namespace, gathered, mine = int(side), self._gathered, self.ctx.own

        def take(key: Any, value: Any, time: int) -> Iterator[None]:
            scope.key = key
            start, partners = others.within(key, time + lower, time + upper)
            for position, (other_time, other, met) in enumerate(partners, start):
                if marks and not met:
                    others.replace(key, position, (other_time, other, True))
                later = time if time > other_time else other_time
                if is_left:
                    pair(mine(value), others.guard(other), time, other_time, later)
                else:
                    pair(others.guard(other), mine(value), other_time, time, later)
                if gathered.is_full:
                    gathered.flush()
                    yield
            if own.add(key, (time, value, bool(partners))):
                register(time + stay, key, namespace)

        return take

    def _pair(self, left: Any, right: Any, left_time: int, right_time: int, time: int) -> None:
        if self._plain is not None:
            results = self._plain(left, right)
        else:
            context = self._context
            context.left, context.right, context.time = left_time, right_time, time
            results = self._user.process_element(left, right, context)
        self._gathered.add_all(results, time)

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        """Records of one key and side have expired; all those that the watermark has passed go at once."""
        side = Side(namespace)
        stay = self._interval.stay(side)
        dropped, first = self._buffers[side].drop(key, self._timers.watermark - stay)
        if first is not None:
            self._timers.event.register(first + stay, key, namespace)
        return self._all_alone(side, key, dropped) if self._outer[side] else None

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
            self._pair(value, None, value_time, MIN_TIME, time)
        else:
            self._pair(None, value, MIN_TIME, value_time, time)

    def has_enough(self) -> bool:
        return self._gathered.is_full

    def flush_timers(self) -> None:
        self._gathered.flush()


def _no_time() -> TimestampError:
    return TimestampError(
        "an interval join needs a timestamp on every record, and one has none; call "
        "assign_timestamps_and_watermarks on both streams before key_by"
    )
