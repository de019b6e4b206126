"""A stream beside a broadcast stream: input 0 is the ordinary side, input 1 the broadcast side.

Every subtask gets every broadcast record and keeps its own copy of the broadcast maps, which only
the broadcast side may change.  There no key is current, so keyed state and timers are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.operators.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.operators.operator import OperatorContext
from penstock.operators.process import CallContext, ProcessBase
from penstock.operators.timer_service import UnkeyedTimerService
from penstock.operators.user_function import require
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.handles import Scope
from penstock.state.operator_state import BroadcastState, ReadOnlyBroadcastState


class _Maps:
    """The declared broadcast maps, looked up by descriptor."""

    def __init__(self, states: dict[str, Any]) -> None:
        self._states = states

    def find(self, descriptor: MapStateDescriptor) -> Any:
        found = self._states.get(descriptor.get_name())
        if found is None:
            known = ", ".join(repr(name) for name in self._states) or "none"
            raise ConfigError(
                f"broadcast state {descriptor.get_name()!r} was not declared; pass its descriptor to "
                f"broadcast(...) where the stream is broadcast. Declared: {known}"
            )
        return found


class _BroadcastCallContext(CallContext):
    """Adds the broadcast maps and the clocks as broadcast functions see them."""

    __slots__ = ("_maps",)

    def __init__(self, service: UnkeyedTimerService, scope: Scope, maps: _Maps) -> None:
        super().__init__(service, scope)
        self._maps = maps

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        """The broadcast map, writable on the broadcast side only."""
        return self._maps.find(state_descriptor)

    def current_processing_time(self) -> int:
        """Wall-clock time, in milliseconds."""
        return self.service.current_processing_time()

    def current_watermark(self) -> int:
        """The operator's event time."""
        return self.service.watermark


class _WriteContext(_BroadcastCallContext, BroadcastProcessFunction.Context):
    __slots__ = ()


class _ReadContext(_BroadcastCallContext, BroadcastProcessFunction.ReadOnlyContext):
    __slots__ = ()


class _KeyedWriteContext(_BroadcastCallContext, KeyedBroadcastProcessFunction.Context):
    __slots__ = ()


class _KeyedReadContext(_BroadcastCallContext, KeyedBroadcastProcessFunction.OnTimerContext):
    __slots__ = ()


class _BroadcastOperator(ProcessBase):
    """What both operators share: opening the maps and choosing the side."""

    read_context: type[_BroadcastCallContext]
    write_context: type[_BroadcastCallContext]

    def __init__(self, user: Any, keyed: bool, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(user, keyed, user.process_element)
        self._descriptors = tuple(descriptors)

    def open(self, ctx: OperatorContext) -> None:
        store = ctx.operator_state
        states: dict[str, BroadcastState] = {
            d.get_name(): store.get_broadcast_state(d) for d in self._descriptors
        }
        self._writable = _Maps(states)
        self._readable = _Maps(
            {name: ReadOnlyBroadcastState(s._entries, ctx.own) for name, s in states.items()}
        )
        super().open(ctx)

    def make_context(self, service: UnkeyedTimerService, scope: Scope) -> CallContext:
        self._write_call_context = self.write_context(service, scope, self._writable)
        return self.read_context(service, scope, self._readable)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if input_index == 1:
            self.run(self._user.process_broadcast_element, batch, self._write_call_context)
        else:
            super().process(batch)


class BroadcastProcessOperator(_BroadcastOperator):
    """Runs a :class:`BroadcastProcessFunction`."""

    read_context = _ReadContext
    write_context = _WriteContext

    def __init__(
        self, function: BroadcastProcessFunction[Any, Any, Any], descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        require(function, BroadcastProcessFunction)
        super().__init__(function, False, descriptors)


class KeyedBroadcastProcessOperator(_BroadcastOperator):
    """Runs a :class:`KeyedBroadcastProcessFunction`."""

    read_context = _KeyedReadContext
    write_context = _KeyedWriteContext

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        require(function, KeyedBroadcastProcessFunction)
        super().__init__(function, True, descriptors)
