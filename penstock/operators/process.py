"""Process functions on one or two streams: the loop that runs user code record by record, and its timers.

``process(batch, input_index)`` gets 0 for the first stream and 1 for the second.  Keyed streams meet
on the key: both sides see the same state and timers.

:class:`ProcessBase` holds the one loop that all process operators share, one-input, two-input and
broadcast alike.  It is the hot path of every stateful Python program, hence its shape: one context
object reused for all records, key and time assigned by the ``for`` statement itself, results
gathered in one list and sorted out after the loop.  Many results leave in pieces (``outflow.py``); where
the outputs are full the loop is suspended, with the key and the time of the record it is at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Outflow, spread_times
from penstock.operators.output_tag import emit_results
from penstock.operators.runtime_context import NO_KEY
from penstock.operators.timer_service import KeyedTimerService, TimeDomain, TimerService, UnkeyedTimerService
from penstock.operators.user_function import FunctionOperator, require
from penstock.state.handles import Scope

ProcessCall = Callable[[Any, Any], Any]
"""A user's method: value or timer time, and context, to ``None`` or an iterable of results."""

NO_KEYS: Iterable[Any] = repeat(NO_KEY)
_NO_TIMES: Iterable[int] = repeat(MIN_TIME)


class CallContext:
    """Implements every context a process function may be given; the nested classes name the subset.

    ``time`` and ``domain`` are set by the engine before each call.
    """

    __slots__ = ("domain", "scope", "service", "time")

    def __init__(self, service: UnkeyedTimerService, scope: Scope) -> None:
        self.service = service
        self.scope = scope
        self.time: int = MIN_TIME
        self.domain = TimeDomain.EVENT_TIME

    def timer_service(self) -> TimerService:
        """Clocks and timers."""
        return self.service

    def timestamp(self) -> int:
        """Event time of the record or timer."""
        return self.time

    def get_current_key(self) -> Any:
        """Key of the record or timer."""
        return self.scope.key

    def time_domain(self) -> TimeDomain:
        """Which clock the timer followed."""
        return self.domain


class _Context(CallContext, ProcessFunction.Context):
    __slots__ = ()


class _KeyedContext(CallContext, KeyedProcessFunction.OnTimerContext):
    __slots__ = ()


class _CoContext(CallContext, CoProcessFunction.Context):
    __slots__ = ()


class _KeyedCoContext(CallContext, KeyedCoProcessFunction.OnTimerContext):
    __slots__ = ()


class ProcessBase(FunctionOperator):
    """The loop, the clocks and the timers of all process operators.

    Results of ``process`` leave as one batch per input batch, results of timers as one batch per
    round of timers, unless they are many; each result with the time of the record or timer it came from.
    """

    context: type[CallContext]
    """What user code is given, with records of the first input and with timers."""

    def __init__(self, user: Any, keyed: bool, *calls: ProcessCall) -> None:
        super().__init__(user, keyed)
        self._calls = calls
        """One for each input."""
        self._timer_items: list[Any] = []
        self._timer_times: list[int] = []

    def open(self, ctx: OperatorContext) -> None:
        self._service = (
            KeyedTimerService(ctx.clock, ctx.keyed) if self._keyed else UnkeyedTimerService(ctx.clock)
        )
        self.call_context = self.make_context(self._service, ctx.keyed.scope)
        self._outflow = Outflow(ctx, partial(emit_results, ctx.out))
        super().open(ctx)

    def make_context(self, service: UnkeyedTimerService, scope: Scope) -> CallContext:
        """An object of the class ``context``."""
        return self.context(service, scope)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        keys: Iterable[Any] = NO_KEYS
        if self._keyed:
            keys = batch.key_list()
            self.ctx.keyed.expect(keys)
        self.run(self._calls[input_index], batch, self.call_context, keys)

    def run(self, call: ProcessCall, batch: Batch, fctx: CallContext, keys: Iterable[Any] = NO_KEYS) -> None:
        """Call ``call`` for each record of ``batch`` and emit the results."""
        self.work(self._results(call, batch, fctx, keys))

    def _results(
        self, call: ProcessCall, batch: Batch, fctx: CallContext, keys: Iterable[Any]
    ) -> Iterator[None]:
        scope, rows = fctx.scope, batch.to_rows()
        times = _NO_TIMES if batch.times is None else batch.times.tolist()
        items: list[Any] = []
        ends: list[int] = []
        left = iter(rows)

        def results() -> Iterator[Iterable[Any]]:
            is_timed, mark = batch.times is not None, ends.append
            for scope.key, value, fctx.time in zip(keys, left, times, strict=False):
                result = call(value, fctx)
                if result is not None:
                    yield result
                if is_timed:
                    mark(len(items))

        try:
            start = yield from self._outflow.pour_all(results(), items, ends, batch.times)
        except Exception:
            self.blame(rows[-1 - length_hint(left)])
            raise
        emit_results(self.ctx.out, items, spread_times(batch.times, ends[start:], start))

    def on_watermark(self, time: EventTime) -> None:
        self._service.watermark = time
        super().on_watermark(time)

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        return self._fire(time, key, TimeDomain.EVENT_TIME)

    def on_processing_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        return self._fire(time, key, TimeDomain.PROCESSING_TIME)

    def _fire(self, time: EventTime, key: Any, domain: TimeDomain) -> Iterator[None] | None:
        fctx = self.call_context
        fctx.scope.key = key
        fctx.time = time
        fctx.domain = domain
        items = self._timer_items
        result = self._user.on_timer(time, fctx)
        if result is None:
            return None
        rest = self._outflow.begin(items, result)
        times = self._timer_times
        times.extend(repeat(time, len(items) - len(times)))
        if len(items) < self._outflow.rows:
            return None
        self._timer_items, self._timer_times = [], []
        return self._outflow.pour(items, np.array(times, dtype=np.int64), rest, time)

    def forget_keys(self) -> None:
        super().forget_keys()
        self._service.watermark = MIN_TIME

    def flush_timers(self) -> None:
        items, times = self._timer_items, self._timer_times
        if items:
            self._timer_items, self._timer_times = [], []
            emit_results(self.ctx.out, items, np.array(times, dtype=np.int64))


class ProcessOperator(ProcessBase):
    """Runs a :class:`ProcessFunction`."""

    context = _Context

    def __init__(self, function: ProcessFunction) -> None:
        require(function, ProcessFunction)
        super().__init__(function, False, function.process_element)


class KeyedProcessOperator(ProcessBase):
    """Runs a :class:`KeyedProcessFunction` behind a ``key_by``."""

    context = _KeyedContext

    def __init__(self, function: KeyedProcessFunction) -> None:
        require(function, KeyedProcessFunction)
        super().__init__(function, True, function.process_element)


class CoProcessOperator(ProcessBase):
    """Runs a :class:`CoProcessFunction`."""

    context = _CoContext

    def __init__(self, function: CoProcessFunction) -> None:
        require(function, CoProcessFunction)
        super().__init__(function, False, function.process_element1, function.process_element2)


class KeyedCoProcessOperator(ProcessBase):
    """Runs a :class:`KeyedCoProcessFunction`."""

    context = _KeyedCoContext

    def __init__(self, function: KeyedCoProcessFunction) -> None:
        require(function, KeyedCoProcessFunction)
        super().__init__(function, True, function.process_element1, function.process_element2)


class CoMapOperator(ProcessBase):
    """Runs a :class:`CoMapFunction`; a result of ``None`` is dropped."""

    context = _CoContext

    def __init__(self, function: CoMapFunction, keyed: bool = False) -> None:
        require(function, CoMapFunction)
        super().__init__(function, keyed, self._first, self._second)

    def _first(self, value: Any, ctx: Any) -> Any:
        result = self._user.map1(value)
        return None if result is None else (result,)

    def _second(self, value: Any, ctx: Any) -> Any:
        result = self._user.map2(value)
        return None if result is None else (result,)


class CoFlatMapOperator(ProcessBase):
    """Runs a :class:`CoFlatMapFunction`; a result that is ``None`` or otherwise false is dropped."""

    context = _CoContext

    def __init__(self, function: CoFlatMapFunction, keyed: bool = False) -> None:
        require(function, CoFlatMapFunction)
        super().__init__(function, keyed, self._first, self._second)

    def _first(self, value: Any, ctx: Any) -> Any:
        return self._user.flat_map1(value) or None

    def _second(self, value: Any, ctx: Any) -> Any:
        return self._user.flat_map2(value) or None
