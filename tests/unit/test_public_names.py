"""The public names, pinned: adding one is a decision, removing one breaks programs.

Every public class and method also has a docstring (its own or inherited) and full annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import penstock.cep
import penstock.common
import penstock.datastream
import penstock.state_processor

COMMON = """
    AssignerWithPeriodicWatermarksWrapper ByteArraySchema CompletableFuture ConfigOption ConfigOptions
    Configuration DeserializationSchema Duration Encoder ExecutionConfig ExecutionMode
    InputDependencyConstraint
    Instant JobClient JobExecutionResult JobID JobStatus RestartStrategies RestartStrategyConfiguration
    Row RowKind SerializationSchema SimpleStringSchema Time TypeInformation TypeSerializer Types
    WatermarkStrategy
""".split()

DATASTREAM = """
    AsyncDataStream AsyncFunction AsyncRetryPredicate AsyncRetryStrategy CoGroupFunction
    FlatJoinFunction JoinFunction ProcessJoinFunction
    AggregateFunction AllWindowedStream BroadcastConnectedStream BroadcastProcessFunction
    BroadcastStream CheckpointConfig CheckpointStorage CheckpointingMode CloseableIterator
    CoFlatMapFunction CoMapFunction CoProcessFunction ConnectedStreams CountWindow DataStream
    DataStreamSink EmbeddedRocksDBStateBackend ExternalizedCheckpointRetention
    FileSystemCheckpointStorage FilterFunction PredefinedOptions
    FlatMapFunction GlobalWindow HashMapStateBackend JobManagerCheckpointStorage KeySelector
    KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction KeyedStream MapFunction
    MergingWindowAssigner OutputTag Partitioner ProcessFunction ProcessWindowFunction ReduceFunction
    RuntimeContext RuntimeExecutionMode StateBackend StreamExecutionEnvironment TimeDomain TimeWindow
    CustomCheckpointStorage CustomStateBackend ExternalizedCheckpointCleanup FsStateBackend MemorySize
    MemoryStateBackend RocksDBStateBackend SinkFunction SlotSharingGroup SourceFunction TimeCharacteristic
    TimerService Trigger TriggerResult Window WindowAssigner WindowFunction WindowedStream
""".split()

CEP = """
    AfterMatchSkipStrategy CEP ConditionContext EventComparator IterativeCondition Pattern
    PatternFlatSelectFunction PatternProcessFunction PatternSelectFunction PatternStream
    PatternTimeoutFunction SimpleCondition SkipError WithinType
""".split()

STATE_PROCESSOR = ["SavepointWriter", "Snapshot", "open_snapshot", "register"]

PUBLIC = [
    (penstock.common, COMMON),
    (penstock.datastream, DATASTREAM),
    (penstock.state_processor, STATE_PROCESSOR),
    (penstock.cep, CEP),
]


@pytest.mark.parametrize(("module", "names"), PUBLIC, ids=["common", "datastream", "state_processor", "cep"])
def test_the_public_names_are_these(module: ModuleType, names: list[str]) -> None:
    assert sorted(module.__all__) == sorted(names)
    missing = [name for name in names if not hasattr(module, name)]
    assert not missing, f"{module.__name__} promises names it does not have: {missing}"


def public_classes() -> Iterator[type]:
    for module, names in PUBLIC:
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield value


def public_methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions behind a class's public methods, properties and constructors, inherited ones too."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("penstock."):
            continue
        for name, value in vars(owner).items():
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(value, property):
                value = value.fget
            elif isinstance(value, staticmethod | classmethod):
                value = value.__func__
            if inspect.isfunction(value):
                yield name, value


@pytest.mark.parametrize("kind", list(public_classes()), ids=lambda kind: kind.__name__)
def test_public_classes_are_documented(kind: type) -> None:
    assert inspect.getdoc(kind), f"{kind.__name__} has no docstring"
    silent = [
        name
        for name, function in public_methods(kind)
        if name != "__init__"
        and not function.__doc__
        and not any(getattr(getattr(base, name, None), "__doc__", None) for base in kind.__mro__[:-1])
    ]
    assert not silent, f"{kind.__name__}: no docstring on {', '.join(silent)}"


@pytest.mark.parametrize("kind", list(public_classes()), ids=lambda kind: kind.__name__)
def test_public_methods_are_annotated(kind: type) -> None:
    bare = []
    for name, function in public_methods(kind):
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters:
            if parameter.name not in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
                bare.append(f"{name}({parameter.name})")
        if inspect.signature(function).return_annotation is inspect.Signature.empty:
            bare.append(f"{name} -> ?")
    assert not bare, f"{kind.__name__}: not annotated: {', '.join(bare)}"
