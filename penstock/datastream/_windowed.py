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
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.operators.output_tag import OutputTag
from penstock.operators.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.window.contents import (
    AggregateContents,
    ListContents,
    ReduceContents,
    WindowContents,
)
from penstock.operators.window.operator import WindowOperator


class _Windows:
    """What keyed and non-keyed windowed streams have in common."""

    _stream: DataStream
    _keyed: bool

    def __init__(self, window_assigner: Any) -> None:
        self._assigner = window_assigner
        self._trigger: Any = None
        self._lateness = 0
        self._late_tag: str | None = None

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

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: Any = None
    ) -> DataStream:
        """Reduce the records of each window as they come; optionally finish with a window function."""
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

    def _add(self, contents: WindowContents, function: Any, output_type: Any) -> DataStream:
        factory = partial(
            WindowOperator,
            self._assigner,
            contents,
            function,
            trigger=self._trigger,
            allowed_lateness_ms=self._lateness,
            late_tag=self._late_tag,
            keyed=self._keyed,
        )
        factory()
        properties: dict[str, Any] = {} if self._keyed else {"parallelism": 1, "max_parallelism": 1}
        return self._stream._add(
            "Window", factory, keyed=self._keyed, stateful=True, output_type=output_type, **properties
        )


class WindowedStream(_Windows):
    """Windows per key."""

    def __init__(self, keyed_stream: _keyed.KeyedStream, window_assigner: Any) -> None:
        super().__init__(window_assigner)
        self._stream = keyed_stream
        self._keyed = True

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Built-in aggregates over named columns, vectorised: count, sum, min, max, avg.

        Needs ``key_by`` with field names and tumbling or sliding event-time windows.  The result has
        the key columns, ``window_start``, ``window_end`` and one column per aggregate.
        """
        keys = self._key_columns()
        panes = self._panes()
        if self._trigger is not None:
            raise GraphError("agg() fires at the end of the window; use aggregate() with a trigger")
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
        return origin._add("Window Aggregate", factory, links=links, keyed=True, stateful=True)

    def _key_columns(self) -> tuple[str, ...]:
        keys = self._stream.keys.columns if isinstance(self._stream, _keyed.KeyedStream) else ()
        if not keys:
            raise GraphError('agg() works on columns: key the stream by field names, key_by("country")')
        return keys

    def _panes(self) -> Panes:
        assigner = self._assigner
        if isinstance(assigner, TumblingEventTimeWindows | SlidingEventTimeWindows):
            return Panes(assigner.size, assigner.slide, assigner.offset)
        raise GraphError(
            "agg() takes tumbling or sliding event-time windows; for others use aggregate() with an "
            "AggregateFunction"
        )


class AllWindowedStream(_Windows):
    """Windows over the whole stream, on one subtask."""

    def __init__(self, data_stream: DataStream, window_assigner: Any) -> None:
        super().__init__(window_assigner)
        self._stream = data_stream
        self._keyed = False
