"""The functions users write.  PyFlink's names and signatures.

Every function has ``open`` (once, before the first record, with state restored) and ``close``.  In
between the engine calls the one or two methods that give the class its name.  Process functions
return ``None``, return an iterable, or are generators; ``yield tag, value`` goes to a side output.

Functions are pickled to the slots: connections, models and state handles belong in ``open``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from penstock.operators.runtime_context import KeyedStateStore, RuntimeContext
from penstock.operators.timer_service import TimeDomain, TimerService
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.operator_state import BroadcastState, ReadOnlyBroadcastState

KEY = TypeVar("KEY")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class Function(ABC):  # noqa: B024 - a base without anything to implement
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional hook
        """Called once before the first record."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Called once at the end, also after a failure."""


class MapFunction(Function):
    """One result per record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The result for ``value``; ``None`` is emitted too."""


class CoMapFunction(Function):
    """One result per record of two connected streams; ``None`` is dropped."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The result for a record of the second stream."""


class FlatMapFunction(Function):
    """Any number of results per record."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """An iterable of results for ``value``."""


class CoFlatMapFunction(Function):
    """Any number of results per record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """An iterable of results for a record of the first stream, or ``None``."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """An iterable of results for a record of the second stream, or ``None``."""


class ReduceFunction(Function):
    """Joins two values of one key into one."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The two as one; return a new object rather than a changed ``value1``, which was emitted."""


class AggregateFunction(Function):
    """Folds values into an accumulator of another type."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with ``value`` in it."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """What the accumulator amounts to."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Two accumulators as one; needed by session windows."""


class KeySelector(Function):
    """Says what a record is keyed by."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: stable, hashable, never ``None``."""


class FilterFunction(Function):
    """Says which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether ``value`` stays."""


class Partitioner(Function):
    """Says which instance of the next step a record goes to."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """A number from 0 up to, not including, ``num_partitions``."""


class ElementContext(ABC):
    """What every process function may ask about the record or timer at hand.

    One object is reused for all calls: do not keep it.
    """

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Clocks and, in keyed functions, timers."""

    @abstractmethod
    def timestamp(self) -> int:
        """Event time of the record or timer; ``MIN_TIME`` if it has none."""


class KeyedContext(ElementContext):
    """The same for keyed process functions."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or timer."""


class ProcessFunction(Function):
    """Any number of results per record, side outputs, clocks; no key, no timers."""

    class Context(ElementContext):
        """Given to ``process_element``."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Handle one record."""


class KeyedProcessFunction(Function):
    """State and timers per key."""

    class Context(KeyedContext):
        """Given to ``process_element``."""

    class OnTimerContext(Context):
        """Given to ``on_timer``."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Handle one record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """Handle a due timer."""
        return None


class CoProcessFunction(Function):
    """Two connected streams, without a key."""

    class Context(ElementContext):
        """Given to both methods."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Handle one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Handle one record of the second stream."""


class KeyedCoProcessFunction(Function):
    """Two connected streams keyed alike: both see the same state."""

    class Context(KeyedContext):
        """Given to both methods."""

    class OnTimerContext(Context):
        """Given to ``on_timer``."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Handle one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Handle one record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """Handle a due timer."""
        return None


class BaseBroadcastProcessFunction(Function):
    """What both broadcast process functions share: their contexts."""

    class BaseContext(ABC):
        """Time, seen from either side."""

        @abstractmethod
        def timestamp(self) -> int:
            """Event time of the record or timer; ``MIN_TIME`` if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Wall-clock time, in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The operator's event time."""

    class Context(BaseContext):
        """The broadcast side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
            """The broadcast map; changes must come out the same on every instance."""

    class ReadOnlyContext(BaseContext):
        """The other side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
            """The broadcast map, to look at."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A stream without key beside a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Given to ``process_broadcast_element``."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """Given to ``process_element``."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Handle one record of the ordinary stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Any:
        """Handle one record of the broadcast stream; every instance gets it."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A keyed stream, with state and timers, beside a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Given to ``process_broadcast_element``: no key is current there."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """Given to ``process_element``."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Clocks and timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

    class OnTimerContext(ReadOnlyContext):
        """Given to ``on_timer``."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Handle one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        """Handle one record of the broadcast stream; every instance gets it."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        """Handle a due timer."""
        return None


__all__ = [
    "AggregateFunction",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ElementContext",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedContext",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "Partitioner",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "TimeDomain",
    "TimerService",
]
