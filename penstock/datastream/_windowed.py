"""``WindowedStream`` and ``AllWindowedStream``: what can be done with windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import GraphError
from penstock.core.type_vars import KEY, R, S, T
from penstock.core.typeinfo import DeclaredType, TypeInformation
from penstock.core.wanted import wanted
from penstock.datastream import _keyed
from penstock.datastream._stream import DataStream
from penstock.exchange.partition import Hash
from penstock.operators.columnar.aggregates import Aggregate
from penstock.operators.columnar.fold import PreAggregateOperator
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.row_by_row import AllRowResults, RowAggregate, RowResults
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.operators.functions import AggregateFunction, ReduceFunction
from penstock.operators.output_tag import OutputTag
from penstock.operators.window.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.operators.window.evictors import Evictor
from penstock.operators.window.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.sessions import EventTimeSessionWindows
from penstock.operators.window.triggers import EventTimeTrigger, PurgingTrigger, Trigger
from penstock.operators.window.window_state import (
    AggregateContents,
    ListContents,
    ReduceContents,
    WindowContents,
)
from penstock.operators.window.windows import W

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class _Windows(Generic[T, KEY, W]):
    """What keyed and non-keyed windowed streams have in common."""

    _stream: DataStream[T]
    _keyed: bool

    def __init__(self, window_assigner: WindowAssigner[Any, W]) -> None:
        self._assigner: Any = wanted(WindowAssigner, window_assigner)  # type: ignore[type-abstract]
        self._trigger: Any = None
        self._lateness = 0
        self._late_tag: str | None = None
        self._evictor: Evictor[Any, Any] | None = None

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """When a window emits, in place of the assigner's own trigger; see ``penstock.datastream.window``."""
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """How long a window is kept, and emits again for late records, after its end: ms, or any duration."""
        self._lateness = to_millis(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Where records go that come too late for every window; else they are dropped, and counted.

        Read them from the result: ``result.get_side_output(output_tag)``.
        """
        self._late_tag = output_tag.tag_id
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """What drops elements before or after each evaluation; the window then keeps every element."""
        self._evictor = evictor
        return self

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], T] | ReduceFunction[T],
        window_function: None = None,
        output_type: DeclaredType = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], T] | ReduceFunction[T],
        window_function: WindowFunction[T, R, KEY, W]
        | ProcessWindowFunction[T, R, KEY, W]
        | AllWindowFunction[T, R, W]
        | ProcessAllWindowFunction[T, R, W],
        output_type: DeclaredType = None,
    ) -> DataStream[R]: ...

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: DeclaredType = None
    ) -> DataStream[Any]:
        """Reduce the records of each window as they come; optionally finish with a window function.

        Only one value is kept for each window, whatever falls into it.  A window function then gets that
        value as its only element, to add the key and the window to it.

        >>> keyed = env.from_collection([1, 2, 3, 4]).key_by(lambda n: "all")
        >>> list(keyed.count_window(2).reduce(lambda a, b: a + b).execute_and_collect())
        [3, 7]
        """
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        return self._add(ReduceContents(reduce_function), window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, R],
        window_function: None = None,
        accumulator_type: DeclaredType = None,
        output_type: DeclaredType = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, S],
        window_function: WindowFunction[S, R, KEY, W]
        | ProcessWindowFunction[S, R, KEY, W]
        | AllWindowFunction[S, R, W]
        | ProcessAllWindowFunction[S, R, W],
        accumulator_type: DeclaredType = None,
        output_type: DeclaredType = None,
    ) -> DataStream[R]: ...

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: DeclaredType = None,
        output_type: DeclaredType = None,
    ) -> DataStream[Any]:
        """Aggregate the records of each window as they come; optionally finish with a window function.

        As ``reduce``, with an ``AggregateFunction``, whose accumulator may be of another type.
        """
        return self._add(AggregateContents(aggregate_function), window_function, output_type)

    def apply(
        self,
        window_function: WindowFunction[T, R, KEY, W] | AllWindowFunction[T, R, W],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """A function over all records of a window, which are kept until it emits."""
        return self._add(ListContents(), window_function, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T, R, KEY, W] | ProcessAllWindowFunction[T, R, W],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """A function with a context over all records of a window, which are kept until it emits."""
        return self._add(ListContents(), process_window_function, output_type)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment this stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation[Any] | None:
        """Declared type of the records, if any."""
        return self._stream.get_type()

    def _add(
        self, contents: WindowContents, function: Any, output_type: DeclaredType, name: str | None = None
    ) -> DataStream[Any]:
        factory = partial(
            WindowOperator,
            self._assigner,
            contents,
            function,
            trigger=self._trigger,
            allowed_lateness_ms=self._lateness,
            late_tag=self._late_tag,
            keyed=self._keyed,
            evictor=self._evictor,
        )
        made = factory()
        if name is None:
            name = "Window (shared panes)" if made.shares_panes else "Window"
        properties: dict[str, Any] = {} if self._keyed else {"parallelism": 1, "max_parallelism": 1}
        return self._stream._add(
            name, factory, keyed=self._keyed, stateful=True, output_type=output_type, **properties
        )

    def _agg_row_by_row(
        self, results: Any, aggregates: tuple[Aggregate, ...], why: object
    ) -> DataStream[Any]:
        """Aggregates over named fields by the row operator; the plan says so, and why."""
        contents = AggregateContents(RowAggregate(aggregates))
        return self._add(contents, results, None, f"Window Aggregate (row by row: {why})")


class WindowedStream(_Windows[T, KEY, W]):
    """Windows of each key; from ``KeyedStream.window``. Say what to compute, and perhaps when.

    ``trigger``, ``allowed_lateness``, ``side_output_late_data`` and ``evictor`` change it and return it;
    ``reduce``, ``aggregate``, ``apply``, ``process`` and ``agg`` end it with a stream of results.

    >>> clicks = env.from_collection([("ann", 1), ("ann", 3), ("ann", 61_000)])
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda c, _: c[1])
    >>> minutes = clicks.assign_timestamps_and_watermarks(by_time).key_by(lambda click: click[0]).window(
    ...     TumblingEventTimeWindows.of(Time.minutes(1))
    ... )
    >>> list(minutes.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect())
    [('ann', 4), ('ann', 61000)]
    """

    def __init__(
        self, keyed_stream: _keyed.KeyedStream[T, KEY], window_assigner: WindowAssigner[Any, W]
    ) -> None:
        super().__init__(window_assigner)
        self._stream = keyed_stream
        self._keyed = True

    def agg(self, *aggregates: Aggregate) -> DataStream[Any]:
        """Built-in aggregates over named columns: those of ``penstock.columns``; there is an example.

        Needs ``key_by`` with field names.  The result has the key columns, ``window_start`` and
        ``window_end`` (of windows of time) and one column per aggregate.  Tumbling and sliding
        event-time windows and sessions with a fixed gap that fire at their end are vectorised; all others
        work row by row, and the plan names them so.
        """
        keys = self._key_columns()
        panes = self._panes()
        if type(panes) is EventTimeSessionWindows:
            return self._agg_sessions(keys, panes.gap, aggregates)
        if not isinstance(panes, Panes):
            return self._agg_row_by_row(RowResults(keys, aggregates), aggregates, panes)
        origin = self._stream
        links = origin._links
        accepts = ColumnarInput.RECORDS
        if self._late_tag is None:
            plain = self._stream._origin if isinstance(self._stream, _keyed.KeyedStream) else self._stream
            folded = plain._add("Pre-Aggregate", partial(PreAggregateOperator, keys, panes, aggregates))
            links = _keyed.KeyedStream(folded, Hash(columns=keys))._links
            accepts = ColumnarInput.PARTIALS
        factory = partial(
            ColumnarWindowOperator,
            keys,
            panes,
            aggregates,
            accepts=accepts,
            allowed_lateness=self._lateness,
            late_tag=self._late_tag,
        )
        factory()
        return origin._add(
            "Window Aggregate", factory, links=links, keyed=True, stateful=True, in_columns=True
        )

    def _agg_sessions(
        self, keys: tuple[str, ...], gap: int, aggregates: tuple[Aggregate, ...]
    ) -> DataStream[Any]:
        factory = partial(
            ColumnarSessionOperator,
            keys,
            gap,
            aggregates,
            allowed_lateness=self._lateness,
            late_tag=self._late_tag,
        )
        factory()
        return self._stream._add("Window Aggregate", factory, keyed=True, stateful=True, in_columns=True)

    def _key_columns(self) -> tuple[str, ...]:
        keys = self._stream.keys.columns if isinstance(self._stream, _keyed.KeyedStream) else ()
        if not keys:
            raise GraphError('agg() works on columns: key the stream by field names, key_by("country")')
        return keys

    def _panes(self) -> Any:
        """The panes for vectorised aggregates, or what stands against them."""
        assigner, trigger = self._assigner, self._trigger
        if self._evictor is not None:
            return self._evictor
        if type(trigger) is PurgingTrigger and not self._lateness:
            # Without lateness the end of the window is its last firing, and purging changes nothing.
            trigger = trigger.nested_trigger
        if trigger is not None and type(trigger) is not EventTimeTrigger:
            return trigger
        if type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows):
            return Panes(assigner.size, assigner.slide, assigner.offset)
        return assigner


class AllWindowedStream(_Windows[T, Any, W], Generic[T, W]):
    """Windows over the whole stream, on one subtask; from ``DataStream.window_all``.

    As ``WindowedStream``, with functions that get no key: ``AllWindowFunction`` and
    ``ProcessAllWindowFunction``.

    >>> pairs = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
    >>> list(pairs.reduce(lambda a, b: a * b).execute_and_collect())
    [2, 12]
    """

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[Any, W]) -> None:
        super().__init__(window_assigner)
        self._stream = data_stream
        self._keyed = False

    def agg(self, *aggregates: Aggregate) -> DataStream[Any]:
        """Built-in aggregates over named columns of the whole stream, row by row on one subtask."""
        return self._agg_row_by_row(AllRowResults(aggregates), aggregates, "window_all")
