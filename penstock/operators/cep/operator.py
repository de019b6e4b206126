"""The pattern operator: puts events in order, lets time pass, keeps the matching of each key.

By event time events wait, per key and time, until the watermark has reached them, and are then worked off
in the order of time, of the comparator if there is one, and of arrival.  An event at or before the watermark
is late.  By processing time each event is worked off as it comes.

State, all keyed: events that wait (``_cep/waiting``, by time), the matching of a key (``_cep/runs``,
``_cep/links``, ``_cep/holders``; see ``run`` and ``buffer``) and events that partial matches hold
(``_cep/events``, by number).  There is a timer for each time at which events wait, and for each key one for
its next deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key
from itertools import repeat
from typing import Any

from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER
from penstock.operators.cep.automaton import build
from penstock.operators.cep.buffer import TableShelf
from penstock.operators.cep.functions import EventComparator, PatternProcessFunction, hears_of_timeouts
from penstock.operators.cep.matcher import NOTHING, Match, Matcher, Run
from penstock.operators.cep.parts import description
from penstock.operators.cep.pattern import Pattern
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.user_function import FunctionOperator, require
from penstock.operators.window.operator import ALL_KEY
from penstock.state.backend import EntryShape
from penstock.state.operator_state import ListMode


class PatternOperator(FunctionOperator):
    """Looks for a pattern among the events of each key, or of all if ``keyed`` is false.

    ``late_tag`` names the side output for late events; without one they are counted as
    ``numLateRecordsDropped``.  ``comparator`` orders events of equal time.
    """

    def __init__(
        self,
        pattern: Pattern,
        function: PatternProcessFunction,
        *,
        event_time: bool = True,
        comparator: EventComparator | None = None,
        late_tag: str | None = None,
        keyed: bool = True,
    ) -> None:
        require(function, PatternProcessFunction)
        super().__init__(function, keyed=True)
        if not isinstance(pattern, Pattern):
            raise ConfigError(f"expected a Pattern, which begins with Pattern.begin(name); got {pattern!r}")
        self._pattern = pattern.checked()
        self._event_time = event_time
        self._order = None if comparator is None else cmp_to_key(comparator.compare)
        self._late_tag = late_tag
        self._has_keys = keyed

    def open(self, ctx: OperatorContext) -> None:
        table = ctx.keyed.table
        self._waiting = table("_cep/waiting", EntryShape.NAMESPACED)
        self._runs = table("_cep/runs", EntryShape.KEY)
        self._scope = ctx.keyed.scope
        self._shelf = TableShelf(ctx.keyed)
        self._run = Run(self._shelf, ctx.own)
        self._timers = ctx.timers
        self._queue = self._timers.event if self._event_time else self._timers.processing
        self._gathered = Gathered(ctx, self._late_tag, ctx.metrics.counter(LATE_COUNTER))
        self._context = _Context(ctx)
        automaton = build(self._pattern.parts)
        self._matcher = Matcher(automaton, self._pattern.skip, self, ctx.clock, hears_of_timeouts(self._user))
        self._check_same_pattern(ctx)
        super().open(ctx)

    def _check_same_pattern(self, ctx: OperatorContext) -> None:
        """Partial matches hold numbers of steps and options, which mean nothing for another pattern."""
        mine = description(self._pattern.parts)
        noted = ctx.operator_state.list_state("_cep/pattern", ListMode.UNION)
        for stored in noted.get():
            if stored != mine:
                raise ConfigError(
                    f"step {ctx.info.operator_name!r} holds partial matches of another pattern ({stored}) "
                    f"than the program's ({mine}); keep the pattern, or give the step a new uid to begin anew"
                )
        noted.update([mine])

    # --- events -----------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Set events aside until their time has come, or work them off at once by processing time."""
        if len(batch) == 0:
            return
        keys: Any = batch.key_list() if self._has_keys else repeat(ALL_KEY)
        if self._event_time:
            self._wait(batch, keys)
            self._gathered.flush()
        else:
            self.work(self._on_events(batch, keys))

    def _on_events(self, batch: Batch, keys: Any) -> Iterator[None]:
        for value, key in zip(batch.to_rows(), keys, strict=False):
            self._work(key, (value,), self.ctx.clock.now_ms())
            if self._gathered.is_full:
                self._gathered.flush()
                yield
        self._gathered.flush()

    def _wait(self, batch: Batch, keys: Any) -> None:
        watermark = self._timers.watermark
        own, put, register = self._waiting.own, self._waiting.put, self._queue.register
        for value, key, time in zip(batch.to_rows(), keys, batch.time_list(), strict=False):
            if time <= watermark:
                self._late(value, time)
                continue
            entry = (key, time)
            others = own(entry)
            if others is None:
                put(entry, [value])
                register(time, key, None)
            else:
                others.append(value)

    def _late(self, value: Any, time: int) -> None:
        if time == MIN_TIME:
            self.blame(value)
            raise TimestampError(
                f"step {self.ctx.info.operator_name!r} looks for a pattern by event time, but a record has "
                "no timestamp; give the source a WatermarkStrategy with a timestamp assigner, or call "
                "in_processing_time()",
                code=Code.NO_TIMESTAMP,
            )
        self._gathered.late(value, time)

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        entry = (key, time)
        events = self._waiting.get(entry) or ()
        if events:
            self._waiting.remove(entry)
            if self._order is not None and len(events) > 1:
                events = sorted(events, key=self._order)
        self._work(key, events, time)

    def on_processing_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        self._work(key, (), time)

    def has_enough(self) -> bool:
        return self._gathered.is_full

    def flush_timers(self) -> None:
        self._gathered.flush()

    # --- matching ---------------------------------------------------------------------------

    def _work(self, key: Any, events: Any, time: int) -> None:
        """Time is ``time`` for a key, and then these events come."""
        self._scope.key = key
        run, matcher = self._run, self._matcher
        stored = self._runs.peek(key)
        run.load(NOTHING if stored is None else stored)
        known = matcher.next_deadline(run)
        if known is not None and known <= time:
            matcher.advance(run, time)
        for value in events:
            try:
                matcher.feed(run, value, time)
            except Exception:
                self.blame(value)
                raise
        if run.changed:
            self._store(key)
            due = matcher.next_deadline(run)
            if due is not None and due != known:
                self._queue.register(due, key, None)

    def _store(self, key: Any) -> None:
        fresh = self._run.stored()
        if fresh is None:
            self._runs.remove(key)
            self._shelf.clear()
        else:
            self._runs.put(key, fresh)

    def matched(self, match: Match, time: int) -> None:
        """Called by the matcher."""
        self._context.time = time
        self._gathered.add_all(self._user.process_match(match, self._context), self._stamp(time))

    def timed_out(self, match: Match, time: int) -> None:
        """Called by the matcher."""
        self._context.time = time
        self._gathered.add_all(self._user.process_timed_out_match(match, self._context), self._stamp(time))

    def _stamp(self, time: int) -> int:
        return time if self._event_time else MIN_TIME


class _Context(PatternProcessFunction.Context):
    __slots__ = ("_clock", "time")

    def __init__(self, ctx: OperatorContext) -> None:
        self._clock = ctx.clock
        self.time: int = MIN_TIME

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self._clock.now_ms()
