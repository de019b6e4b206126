"""The stream classes under PyFlink's module name."""

from penstock.common import typeinfo
from penstock.common.execution_config import ExecutionConfig
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.types import Row
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.core.elsewhere import shown_in
from penstock.datastream._connected import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from penstock.datastream._keyed import KeyedStream
from penstock.datastream._sink import CloseableIterator, DataStreamSink
from penstock.datastream._stream import CachedDataStream, DataStream
from penstock.datastream._windowed import AllWindowedStream, WindowedStream
from penstock.datastream.connectors.base import Sink
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    AsyncFunctionDescriptor,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    WindowFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CountWindowSerializer,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    TimeWindowSerializer,
    Trigger,
    WindowAssigner,
)

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]

shown_in(__name__, __all__)

# PyFlink has these here, too, from its other modules.
__all__ += [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AsyncFunctionDescriptor",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "CountWindowSerializer",
    "ExecutionConfig",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "GlobalWindowSerializer",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RowTypeInfo",
    "RuntimeContext",
    "Sink",
    "SinkFunction",
    "SlotSharingGroup",
    "StateDescriptor",
    "TimeWindowSerializer",
    "TimestampAssigner",
    "Trigger",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowFunction",
    "typeinfo",
]
