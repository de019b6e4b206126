"""What programs are written with: the environment, streams, functions, checkpoints. PyFlink's names.

>>> env = StreamExecutionEnvironment.get_execution_environment()
>>> words = env.from_collection(["to be", "or not to be"]).flat_map(str.split)
>>> counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
>>> sorted(counts.execute_and_collect("words"))
[('be', 1), ('be', 2), ('not', 1), ('or', 1), ('to', 1), ('to', 2)]

Begin with ``StreamExecutionEnvironment``, then ``DataStream``, ``KeyedStream`` and ``KeyedProcessFunction``.
In the examples of their docstrings ``env`` is a new environment, and all names are imported: those of this
package, of its modules ``window`` and ``state``, of ``penstock.common`` and of ``penstock.columns``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import front_of

if TYPE_CHECKING:
    from penstock.datastream.async_data_stream import AsyncDataStream
    from penstock.datastream.checkpoint_config import CheckpointConfig
    from penstock.datastream.checkpoint_storage import (
        CheckpointStorage,
        CustomCheckpointStorage,
        FileSystemCheckpointStorage,
        JobManagerCheckpointStorage,
    )
    from penstock.datastream.checkpointing_mode import CheckpointingMode
    from penstock.datastream.data_stream import (
        AllWindowedStream,
        BroadcastConnectedStream,
        BroadcastStream,
        CloseableIterator,
        ConnectedStreams,
        DataStream,
        DataStreamSink,
        KeyedStream,
        WindowedStream,
    )
    from penstock.datastream.execution_mode import RuntimeExecutionMode
    from penstock.datastream.externalized_checkpoint_retention import (
        ExternalizedCheckpointCleanup,
        ExternalizedCheckpointRetention,
    )
    from penstock.datastream.functions import (
        AggregateFunction,
        AsyncFunction,
        AsyncRetryPredicate,
        AsyncRetryStrategy,
        BroadcastProcessFunction,
        CoFlatMapFunction,
        CoGroupFunction,
        CoMapFunction,
        CoProcessFunction,
        FilterFunction,
        FlatJoinFunction,
        FlatMapFunction,
        JoinFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedProcessFunction,
        KeySelector,
        MapFunction,
        Partitioner,
        ProcessFunction,
        ProcessJoinFunction,
        ProcessWindowFunction,
        ReduceFunction,
        RuntimeContext,
        SinkFunction,
        SourceFunction,
        WindowFunction,
    )
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
    from penstock.datastream.state_backend import (
        CustomStateBackend,
        EmbeddedRocksDBStateBackend,
        FsStateBackend,
        HashMapStateBackend,
        MemoryStateBackend,
        PredefinedOptions,
        RocksDBStateBackend,
        StateBackend,
    )
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.time_characteristic import TimeCharacteristic
    from penstock.datastream.time_domain import TimeDomain
    from penstock.datastream.timerservice import TimerService
    from penstock.datastream.window import (
        CountWindow,
        GlobalWindow,
        MergingWindowAssigner,
        TimeWindow,
        Trigger,
        TriggerResult,
        Window,
        WindowAssigner,
    )

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    _MODULES = """
        functions output_tag timerservice time_domain window execution_mode checkpointing_mode
        checkpoint_storage checkpoint_config externalized_checkpoint_retention state_backend
        slot_sharing_group time_characteristic data_stream async_data_stream stream_execution_environment
    """
    __getattr__ = front_of(__name__, __all__, _MODULES)


def __dir__() -> list[str]:
    return __all__
