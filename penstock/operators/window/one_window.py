"""Which assigners put an element into one window: what is in its last firing is then in no other."""

from __future__ import annotations

from typing import Any

from penstock.operators.window.assigners import (
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.operators.window.counting import CountTumblingWindowAssigner
from penstock.operators.window.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)

_ONE_WINDOW_EACH = {
    *(TumblingEventTimeWindows, TumblingProcessingTimeWindows, CountTumblingWindowAssigner, GlobalWindows),
    *(EventTimeSessionWindows, DynamicEventTimeSessionWindows),
    *(ProcessingTimeSessionWindows, DynamicProcessingTimeSessionWindows),
}


def is_in_one_window(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether the assigner puts each element into one window; a subclass may put it into more."""
    return type(assigner) in _ONE_WINDOW_EACH
