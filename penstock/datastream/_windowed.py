"""``WindowedStream`` and ``AllWindowedStream``: what can be done with windows."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.durations import to_millis
from penstock.core.errors import GraphError
from penstock.datastream import _keyed
from penstock.datastream._stream import DataStream
from penstock.exchange.partition import Hash
from penstock.operators.columnar.aggregates import Aggregate
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.preaggregate import PreAggregateOperator
from penstock.operators.columnar.row_by_row import AllRowResults, RowAggregate, RowResults
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.operators.output_tag import OutputTag
from penstock.operators.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.window.contents import (
    AggregateContents,
    ListContents,
    ReduceContents,
    WindowContents,
)
from penstock.operators.window.evictors import Evictor
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import EventTimeTrigger, PurgingTrigger


class _Windows:
    """What keyed and non-keyed windowed streams have in common."""

    _stream: DataStream
    _keyed: bool

    def __init__(self, window_assigner: Any) -> None:
        self._assigner = window_assigner
        self._trigger: Any = None
        self._lateness = 0
        self._late_tag: str | None = None
        self._evictor: Evictor[Any, Any] | None = None

    def trigger(self, trigger: Any) -> Any:
        """When a window emits, if not at its end."""
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: Any) -> Any:
        """How long a window is kept, and emits again for late records, after its end."""
        self._lateness = to_millis(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Any:
        """Where records go that come too late for every window."""
        self._late_tag = output_tag.tag_id
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Any:
        """What drops elements before or after each evaluation; the window then keeps every element."""
        self._evictor = evictor
        return self

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: Any = None
    ) -> DataStream:
        """Reduce the records of each window as they come; optionally finish with a window function."""
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        return self._add(ReduceContents(reduce_function), window_function, output_type)

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """Aggregate the records of each window as they come; optionally finish with a function."""
        return self._add(AggregateContents(aggregate_function), window_function, output_type)

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """A function over all records of a window."""
        return self._add(ListContents(), window_function, output_type)

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """A function with a context over all records of a window."""
        return self._add(ListContents(), process_window_function, output_type)

    def get_execution_environment(self) -> Any:
        """The environment this stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> Any:
        """Declared type of the records, if any."""
        return self._stream.get_type()

    def _add(
        self, contents: WindowContents, function: Any, output_type: Any, name: str | None = None
    ) -> DataStream:
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

    def _agg_row_by_row(self, results: Any, aggregates: tuple[Aggregate, ...], why: Any) -> DataStream:
        """Aggregates over named fields by the row operator; the plan says so, and why."""
        contents = AggregateContents(RowAggregate(aggregates))
        return self._add(contents, results, None, f"Window Aggregate (row by row: {why})")


class WindowedStream(_Windows):
    """Windows per key."""

    def __init__(self, keyed_stream: _keyed.KeyedStream, window_assigner: Any) -> None:
        super().__init__(window_assigner)
        self._stream = keyed_stream
        self._keyed = True

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Built-in aggregates over named columns: count, sum, min, max, avg.

        Needs ``key_by`` with field names.  The result has the key columns, ``window_start`` and
        ``window_end`` (of windows of time) and one column per aggregate.  Tumbling and sliding
        event-time windows that fire at their end are vectorised; all others work row by row, and the
        plan names them so.
        """
        keys = self._key_columns()
        panes = self._panes()
        if not isinstance(panes, Panes):
            return self._agg_row_by_row(RowResults(keys, aggregates), aggregates, panes)
        origin: DataStream = self._stream
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


class AllWindowedStream(_Windows):
    """Windows over the whole stream, on one subtask."""

    def __init__(self, data_stream: DataStream, window_assigner: Any) -> None:
        super().__init__(window_assigner)
        self._stream = data_stream
        self._keyed = False

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Built-in aggregates over named columns of the whole stream, row by row on one subtask."""
        return self._agg_row_by_row(AllRowResults(aggregates), aggregates, "window_all")
