"""Which handle serves which descriptor: plain ones, or those of :mod:`penstock.state.ttl`."""

from __future__ import annotations

from penstock.core.errors import ConfigError
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
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
from penstock.state.table import Table
from penstock.state.ttl import (
    Lifetime,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)


def make_handle(
    descriptor: StateDescriptor, table: Table, scope: Scope, namespaced: bool, life: Lifetime | None
) -> State:
    """A new handle on ``table``; ``life`` says how its entries expire, if they do."""
    if life is not None:
        return _expiring(descriptor, table, scope, namespaced, life)
    if isinstance(descriptor, ValueStateDescriptor):
        kind = ValueState if namespaced else KeyedValueState
        return kind(table, scope, namespaced)
    if isinstance(descriptor, ListStateDescriptor):
        return ListState(table, scope, namespaced)
    if isinstance(descriptor, MapStateDescriptor):
        return MapState(table, scope, namespaced)
    if isinstance(descriptor, ReducingStateDescriptor):
        return ReducingState(table, scope, descriptor, namespaced)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return AggregatingState(table, scope, descriptor, namespaced)
    raise _unknown(descriptor)


def _expiring(
    descriptor: StateDescriptor, table: Table, scope: Scope, namespaced: bool, life: Lifetime
) -> State:
    if isinstance(descriptor, ValueStateDescriptor):
        return TtlValueState(table, scope, life, namespaced)
    if isinstance(descriptor, ListStateDescriptor):
        return TtlListState(table, scope, life, namespaced)
    if isinstance(descriptor, MapStateDescriptor):
        return TtlMapState(table, scope, life, namespaced)
    if isinstance(descriptor, ReducingStateDescriptor):
        return TtlReducingState(table, scope, descriptor, life, namespaced)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return TtlAggregatingState(table, scope, descriptor, life, namespaced)
    raise _unknown(descriptor)


def _unknown(descriptor: StateDescriptor) -> ConfigError:
    return ConfigError(f"unknown kind of state descriptor: {type(descriptor).__name__}")
