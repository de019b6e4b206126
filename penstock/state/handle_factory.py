"""Which handle serves which descriptor: plain ones, or those of :mod:`penstock.state.ttl`."""

from __future__ import annotations

from typing import Any

from penstock.state.backend import Table
from penstock.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from penstock.state.handles import (
    AggregatingState,
    KeyedValueState,
    ListState,
    MapState,
    ReducingState,
    Scope,
    State,
    ValueState,
)
from penstock.state.schema import StateKind
from penstock.state.ttl import (
    Lifetime,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)

_PLAIN: dict[StateKind, Any] = {
    StateKind.VALUE: ValueState,
    StateKind.LIST: ListState,
    StateKind.MAP: MapState,
    StateKind.REDUCING: ReducingState,
    StateKind.AGGREGATING: AggregatingState,
}
_EXPIRING: dict[StateKind, Any] = {
    StateKind.VALUE: TtlValueState,
    StateKind.LIST: TtlListState,
    StateKind.MAP: TtlMapState,
    StateKind.REDUCING: TtlReducingState,
    StateKind.AGGREGATING: TtlAggregatingState,
}


def make_handle(
    descriptor: StateDescriptor, table: Table, scope: Scope, namespaced: bool, life: Lifetime | None
) -> State:
    """A new handle on ``table``; ``life`` says how its entries expire, if they do."""
    kind = StateKind.of(descriptor)
    if kind is StateKind.VALUE and life is None and not namespaced:
        return KeyedValueState(table, scope)
    functions = (AggregatingStateDescriptor, ReducingStateDescriptor)
    needed = [descriptor, namespaced] if isinstance(descriptor, functions) else [namespaced]
    if life is None:
        handle: State = _PLAIN[kind](table, scope, *needed)
    else:
        handle = _EXPIRING[kind](table, scope, *needed, life=life)
    return handle
