"""State handles, descriptors and ``StateTtlConfig``, where PyFlink programs look for them."""

from __future__ import annotations

from penstock.common.time import Duration, Time
from penstock.common.typeinfo import TypeInformation, Types
from penstock.core.elsewhere import shown_in
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
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from penstock.state.operator_state import BroadcastState, OperatorStateStore, ReadOnlyBroadcastState
from penstock.state.ttl_config import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

shown_in(__name__, __all__)

# PyFlink has these here, too, from its other modules.
__all__ += ["Duration", "Time", "TypeInformation", "Types"]
