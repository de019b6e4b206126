"""The functions users write.  PyFlink's names and signatures.

Every function has ``open`` (once, before the first record, with state restored) and ``close``.  In
between the engine calls the one or two methods that give the class its name.  Process functions
return ``None``, return an iterable, or are generators; ``yield tag, value`` goes to a side output.

Functions are pickled to the slots: connections, models and state handles belong in ``open``.
"""

# long because each class teaches how to write one

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from penstock.core.type_vars import ACC, IN, IN1, IN2, KEY, OUT, K, R, T, V
from penstock.operators.output_tag import OutputTag
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.timer_service import TimeDomain, TimerService
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.operator_state import BroadcastState, ReadOnlyBroadcastState

Results = Iterable[R | tuple[OutputTag[Any], Any]] | None
"""What process functions give: records, and pairs of tag and value for side outputs; or nothing."""


class Function(ABC):  # noqa: B024 - a base without anything to implement
    """Base of all functions: ``open`` before the first record, ``close`` behind the last.

    A function is written in the driver, pickled, and lives once in every subtask of its step.  There all
    its methods are called by one thread, one after the other: nothing needs a lock, and a call that blocks
    holds up everything in its slot.  Attributes set while it runs are lost when the job restarts; what must
    last goes into state.

    >>> class Model(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.table = {"a": 1}  # load models and open connections here, not in __init__
    ...     def map(self, value):
    ...         return self.table.get(value, 0)
    >>> list(env.from_collection(["a", "b"]).map(Model()).execute_and_collect())
    [1, 0]
    """

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional hook
        """Called once in each subtask, with its state restored and before its first record.

        ``runtime_context`` gives state handles, metrics and the number of the subtask.  No key is current
        yet: handles are made here and used later.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Called once when the subtask ends, also after a failure; not when its process is killed."""


class MapFunction(Function, Generic[IN, OUT]):
    """One result for each record, for ``DataStream.map``. A plain function of one value does as well.

    >>> class Double(MapFunction[int, int]):
    ...     def map(self, value: int) -> int:
    ...         return 2 * value
    >>> list(env.from_collection([1, 2]).map(Double()).execute_and_collect())
    [2, 4]
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """The result for ``value``, emitted with the record's time; ``None`` is emitted too."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One result for each record of two connected streams, for ``ConnectedStreams.map``.

    >>> class Named(CoMapFunction[int, str, str]):
    ...     def map1(self, value: int) -> str:
    ...         return f"number {value}"
    ...     def map2(self, value: str) -> str:
    ...         return f"text {value}"
    >>> both = env.from_collection([1]).connect(env.from_collection(["a"])).map(Named())
    >>> sorted(both.execute_and_collect())
    ['number 1', 'text a']
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """The result for a record of the first stream; ``None`` is dropped."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """The result for a record of the second stream; ``None`` is dropped."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record, for ``DataStream.flat_map``.

    >>> class Words(FlatMapFunction[str, str]):
    ...     def flat_map(self, value: str):
    ...         yield from value.split()
    >>> list(env.from_collection(["to be", "or"]).flat_map(Words()).execute_and_collect())
    ['to', 'be', 'or']
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """The results for ``value``: an iterable, a generator, or ``None`` for none."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of two connected streams, for ``ConnectedStreams.flat_map``.

    >>> class Odd(CoFlatMapFunction[int, str, str]):
    ...     def flat_map1(self, value: int):
    ...         return [str(value)] if value % 2 else None
    ...     def flat_map2(self, value: str):
    ...         yield value
    >>> both = env.from_collection([1, 2]).connect(env.from_collection(["a"])).flat_map(Odd())
    >>> sorted(both.execute_and_collect())
    ['1', 'a']
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """The results for a record of the first stream: an iterable, a generator, or ``None``."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """The results for a record of the second stream: an iterable, a generator, or ``None``."""


class ReduceFunction(Function, Generic[T]):
    """Joins two values into one of the same type; for keyed and windowed streams, and ``ReducingState``.

    It must not matter in which order values are joined: in windows, partial results meet in any.

    >>> class Larger(ReduceFunction[int]):
    ...     def reduce(self, value1: int, value2: int) -> int:
    ...         return max(value1, value2)
    >>> keyed = env.from_collection([1, 3, 2]).key_by(lambda n: "all")
    >>> list(keyed.reduce(Larger()).execute_and_collect())
    [1, 3, 3]
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """The two as one; return a new object rather than a changed ``value1``, which was emitted."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Folds values into an accumulator of another type; for ``aggregate`` on windows, ``AggregatingState``.

    >>> class Mean(AggregateFunction[int, tuple[int, int], float]):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...     def merge(self, acc_a, acc_b):
    ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    >>> keyed = env.from_collection([1, 2, 6]).key_by(lambda n: "all")
    >>> list(keyed.count_window(3).aggregate(Mean()).execute_and_collect())
    [3.0]
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """An empty accumulator; called before the first value of a key or window."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with ``value`` in it; it may be the same object, changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """What the accumulator amounts to; it must not change, since more values may follow."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators as one; called where windows merge, as sessions do."""


class KeySelector(Function, Generic[IN, KEY]):
    """Says what a record is keyed by, for ``key_by``. A plain function of one value does as well.

    >>> class Parity(KeySelector[int, str]):
    ...     def get_key(self, value: int) -> str:
    ...         return "odd" if value % 2 else "even"
    >>> sums = env.from_collection([1, 2, 3]).key_by(Parity()).reduce(lambda a, b: a + b)
    >>> list(sums.execute_and_collect())
    [1, 2, 4]
    """

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """The key: stable, hashable, never ``None``. Called more than once for a record."""


class FilterFunction(Function, Generic[IN]):
    """Says which records stay, for ``DataStream.filter``. A plain function of one value does as well.

    >>> class Even(FilterFunction[int]):
    ...     def filter(self, value: int) -> bool:
    ...         return value % 2 == 0
    >>> list(env.from_collection([1, 2, 3]).filter(Even()).execute_and_collect())
    [2]
    """

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Whether ``value`` stays."""


class Partitioner(Function, Generic[IN]):
    """Says which instance of the next step a record goes to, for ``partition_custom``.

    >>> class ByLength(Partitioner[str]):
    ...     def partition(self, key: str, num_partitions: int) -> int:
    ...         return len(key) % num_partitions
    >>> names = env.from_collection(["ann", "jo"]).partition_custom(ByLength(), lambda name: name)
    >>> sorted(names.map(str.upper).execute_and_collect())
    ['ANN', 'JO']
    """

    @abstractmethod
    def partition(self, key: IN, num_partitions: int) -> int:
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


class KeyedContext(ElementContext, Generic[K]):
    """The same for keyed process functions."""

    @abstractmethod
    def get_current_key(self) -> K:
        """The key of the record or timer."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record, side outputs, clocks; no key, so no keyed state and no timers.

    >>> ODD = OutputTag("odd")
    >>> class Split(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value % 2:
    ...             yield ODD, value  # to the side output
    ...         else:
    ...             yield value
    >>> even = env.from_collection([1, 2, 3]).process(Split())
    >>> list(even.get_side_output(ODD).execute_and_collect())
    [1, 3]
    """

    class Context(ElementContext):
        """Given to ``process_element``."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Results[OUT]:
        """Handle one record: return or yield results, ``yield tag, value`` for a side output, or nothing."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """State and timers for each key; for ``process`` behind a ``key_by``.

    The engine makes one object for each subtask, which serves all keys that belong there.  It calls, on
    one thread and never two at a time:

    * ``open`` once: get state handles here.  A handle always acts on the key of the call it is used in;
    * ``process_element`` for each record, with the key of the record;
    * ``on_timer`` for each timer that is due, with the key for which it was registered;
    * ``close`` once.

    Results are returned as an iterable or yielded; they carry the time of the record or timer.  What is in
    state and which timers are registered survives failures exactly as of the last checkpoint, whose records
    are not seen again; attributes of the object do not survive.  Do not block: a slot has one thread.

    Count the records of each key, and emit the count a second of event time after the first of them:

    >>> class CountThenForget(KeyedProcessFunction[str, tuple[str, int], tuple[str, int]]):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         seen = self.count.value()
    ...         if seen is None:
    ...             ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
    ...         self.count.update((seen or 0) + 1)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.count.value()
    ...         self.count.clear()
    >>> clicks = env.from_collection([("ann", 10), ("bob", 20), ("ann", 30)])
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda c, _: c[1])
    >>> keyed = clicks.assign_timestamps_and_watermarks(by_time).key_by(lambda click: click[0])
    >>> list(keyed.process(CountThenForget()).execute_and_collect())
    [('ann', 2), ('bob', 1)]

    Give the step a ``uid``, by which its state is found again when the program has changed.  To test one
    function alone, see ``penstock.testing.Harness`` and ``penstock.testing.verify``.
    """

    class Context(KeyedContext[K]):
        """Given to ``process_element``: the record's key and time, clocks, timers. Do not keep it."""

    class OnTimerContext(Context[V]):
        """Given to ``on_timer``: the same for the timer, and which clock it followed."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context[KEY]) -> Results[OUT]:
        """Handle one record, with its key current.

        ``value`` is the record; ``ctx`` has its key and event time, and the timer service.  Return or yield
        results; ``yield tag, value`` sends a value to a side output; ``None`` means no results.
        """

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[KEY]) -> Results[OUT]:
        """Handle a timer that is due, with its key current; results as in ``process_element``.

        Called when the watermark has reached ``timestamp`` (event time) or the clock has passed it
        (processing time), before the records behind that.  A timer fires once; registering the same time
        for the same key twice fires it once.
        """
        return None


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Two connected streams in one function, without a key.

    >>> class Tell(CoProcessFunction):
    ...     def process_element1(self, value, ctx):
    ...         yield "first", value
    ...     def process_element2(self, value, ctx):
    ...         yield "second", value
    >>> both = env.from_collection([1]).connect(env.from_collection([2])).process(Tell())
    >>> sorted(both.execute_and_collect())
    [('first', 1), ('second', 2)]
    """

    class Context(ElementContext):
        """Given to both methods."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Results[OUT]:
        """Handle one record of the first stream; results as in ``ProcessFunction``."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Results[OUT]:
        """Handle one record of the second stream; results as in ``ProcessFunction``."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """Two connected streams keyed alike: both sides see the same state and timers of the key at hand.

    >>> class Price(KeyedCoProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.price = runtime_context.get_state(ValueStateDescriptor("price", Types.LONG()))
    ...         self.open_orders = runtime_context.get_list_state(ListStateDescriptor("open", Types.LONG()))
    ...     def process_element1(self, order, ctx):  # (item, pieces)
    ...         if self.price.value() is None:
    ...             self.open_orders.add(order[1])
    ...         else:
    ...             yield order[0], order[1] * self.price.value()
    ...     def process_element2(self, price, ctx):  # (item, price)
    ...         self.price.update(price[1])
    ...         for pieces in self.open_orders.get():
    ...             yield price[0], pieces * price[1]
    ...         self.open_orders.clear()
    >>> orders, prices = env.from_collection([("tea", 3)]), env.from_collection([("tea", 5)])
    >>> both = orders.connect(prices).key_by(lambda order: order[0], lambda price: price[0])
    >>> list(both.process(Price()).execute_and_collect())
    [('tea', 15)]
    """

    class Context(KeyedContext[K]):
        """Given to both methods."""

    class OnTimerContext(Context[V]):
        """Given to ``on_timer``."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context[KEY]) -> Results[OUT]:
        """Handle one record of the first stream, with its key current."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context[KEY]) -> Results[OUT]:
        """Handle one record of the second stream, with its key current."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[KEY]) -> Results[OUT]:
        """Handle a timer that is due, with its key current; see ``KeyedProcessFunction.on_timer``."""
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
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """The broadcast map; changes must come out the same on every instance."""

    class ReadOnlyContext(BaseContext):
        """The other side."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> ReadOnlyBroadcastState[K, V]:
            """The broadcast map, to look at."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A stream without key beside a broadcast stream: rules, prices, models that every instance must know.

    Every instance gets every broadcast record and keeps the broadcast maps, which are part of snapshots.
    Records of the two sides come in no particular order.

    >>> BANNED = MapStateDescriptor("banned", Types.STRING(), Types.BOOLEAN())
    >>> class Ban(BroadcastProcessFunction[str, str, str]):
    ...     def process_element(self, value, ctx):
    ...         if not ctx.get_broadcast_state(BANNED).contains(value):
    ...             yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(BANNED).put(value, True)
    >>> rules = env.from_collection(["spam"]).broadcast(BANNED)
    >>> list(env.from_collection(["tea"]).connect(rules).process(Ban()).execute_and_collect())
    ['tea']
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """Given to ``process_broadcast_element``."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """Given to ``process_element``."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Results[OUT]:
        """Handle one record of the ordinary stream; the broadcast maps can be read."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Results[OUT]:
        """Handle one record of the broadcast stream; every instance gets it, and may change the maps."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A keyed stream, with state and timers, beside a broadcast stream.

    >>> LIMIT = MapStateDescriptor("limit", Types.STRING(), Types.LONG())
    >>> class OverLimit(KeyedBroadcastProcessFunction[str, tuple[str, int], int, str]):
    ...     def open(self, runtime_context):
    ...         self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         self.total.update((self.total.value() or 0) + value[1])
    ...         if self.total.value() > (ctx.get_broadcast_state(LIMIT).get("limit") or 10):
    ...             yield f"{ctx.get_current_key()}: {self.total.value()}"
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(LIMIT).put("limit", value)
    >>> spent = env.from_collection([("ann", 7), ("ann", 8)]).key_by(lambda s: s[0])
    >>> limits = env.from_collection([9]).broadcast(LIMIT)
    >>> list(spent.connect(limits).process(OverLimit()).execute_and_collect())
    ['ann: 15']
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """Given to ``process_broadcast_element``: no key is current there."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, Generic[K]):
        """Given to ``process_element``."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Clocks and timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> K:
            """The key of the record or timer."""

    class OnTimerContext(ReadOnlyContext[V]):
        """Given to ``on_timer``."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[KEY]
    ) -> Results[OUT]:
        """Handle one record of the keyed stream, with its key current; the broadcast maps can be read."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Results[OUT]:
        """Handle one record of the broadcast stream; every instance gets it, and no key is current."""

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[KEY]
    ) -> Results[OUT]:
        """Handle a timer that is due, with its key current; see ``KeyedProcessFunction.on_timer``."""
        return None
