"""Windows, assigners and triggers under PyFlink's names."""

from __future__ import annotations

from penstock.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from penstock.common.serializer import TypeSerializer
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.core.elsewhere import shown_in
from penstock.datastream.functions import ReduceFunction, RuntimeContext
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import (
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.metrics import MetricGroup
from penstock.operators.window.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.operators.window.composite import AfterWatermark, EarlyAndLateTrigger, ProcessingTimeoutTrigger
from penstock.operators.window.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from penstock.operators.window.counting import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.operators.window.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from penstock.operators.window.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.operators.window.triggers import (
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from penstock.operators.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    long_to_int_with_bit_mixing,
    mod_inverse,
)

__all__ = [
    "AfterWatermark",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EarlyAndLateTrigger",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]

shown_in(__name__, __all__)

# PyFlink has these here, too, from its other modules.
__all__ += [
    "MAX_LONG_VALUE",
    "MIN_LONG_VALUE",
    "MetricGroup",
    "OutputTag",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "State",
    "StateDescriptor",
    "Time",
    "TypeSerializer",
    "Types",
    "ValueStateDescriptor",
]
