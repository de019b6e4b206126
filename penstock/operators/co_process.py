"""Two connected streams in one operator, keyed or not: map, flat map and process functions.

``process(batch, input_index)`` gets 0 for the first stream and 1 for the second.  Keyed streams meet
on the key: both sides see the same state and timers.
"""

from __future__ import annotations

from typing import Any

from penstock.core.batch import Batch
from penstock.operators.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.process import CallContext, ProcessBase, ProcessCall
from penstock.operators.timer_service import UnkeyedTimerService
from penstock.operators.user_function import require
from penstock.state.handles import Scope


class _Context(CallContext, CoProcessFunction.Context):
    __slots__ = ()


class _KeyedContext(CallContext, KeyedCoProcessFunction.OnTimerContext):
    __slots__ = ()


class _TwoInputOperator(ProcessBase):
    """Runs one call per side."""

    def __init__(self, user: Any, keyed: bool, first: ProcessCall, second: ProcessCall) -> None:
        super().__init__(user, keyed)
        self._calls = (first, second)

    def make_context(self, service: UnkeyedTimerService, scope: Scope) -> CallContext:
        return _KeyedContext(service, scope) if self._keyed else _Context(service, scope)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        call = self._calls[input_index]
        if self._keyed:
            self.run(call, batch, self.call_context, batch.key_list())
        else:
            self.run(call, batch, self.call_context)


class CoProcessOperator(_TwoInputOperator):
    """Runs a :class:`CoProcessFunction`."""

    def __init__(self, function: CoProcessFunction) -> None:
        require(function, CoProcessFunction)
        super().__init__(function, False, function.process_element1, function.process_element2)


class KeyedCoProcessOperator(_TwoInputOperator):
    """Runs a :class:`KeyedCoProcessFunction`."""

    def __init__(self, function: KeyedCoProcessFunction) -> None:
        require(function, KeyedCoProcessFunction)
        super().__init__(function, True, function.process_element1, function.process_element2)


class CoMapOperator(_TwoInputOperator):
    """Runs a :class:`CoMapFunction`; a result of ``None`` is dropped."""

    def __init__(self, function: CoMapFunction, keyed: bool = False) -> None:
        require(function, CoMapFunction)
        super().__init__(function, keyed, self._first, self._second)

    def _first(self, value: Any, ctx: Any) -> Any:
        result = self._user.map1(value)
        return None if result is None else (result,)

    def _second(self, value: Any, ctx: Any) -> Any:
        result = self._user.map2(value)
        return None if result is None else (result,)


class CoFlatMapOperator(_TwoInputOperator):
    """Runs a :class:`CoFlatMapFunction`; a result that is ``None`` or otherwise false is dropped."""

    def __init__(self, function: CoFlatMapFunction, keyed: bool = False) -> None:
        require(function, CoFlatMapFunction)
        super().__init__(function, keyed, self._first, self._second)

    def _first(self, value: Any, ctx: Any) -> Any:
        return self._user.flat_map1(value) or None

    def _second(self, value: Any, ctx: Any) -> Any:
        return self._user.flat_map2(value) or None
