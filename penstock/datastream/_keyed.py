"""``KeyedStream``: a stream partitioned by key, where state lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, NoReturn, overload

from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.type_vars import KEY, K, R, S, T_co
from penstock.core.typeinfo import DeclaredType
from penstock.datastream._sink import DataStreamSink
from penstock.datastream._stream import DataStream, made
from penstock.exchange.partition import Hash, Partitioning
from penstock.graph.nodes import Link, Node
from penstock.operators.aggregate import AccumulateType as Accumulate
from penstock.operators.aggregate import KeyedReduceOperator, field_reducer
from penstock.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.counting import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.operators.window.windows import CountWindow, W


class KeyedStream(DataStream[T_co], Generic[T_co, KEY]):
    """A stream whose records with equal keys meet on one subtask, where they share state; from ``key_by``.

    ``process`` with a ``KeyedProcessFunction`` is the general form: state and timers for each key.
    ``window`` groups by time or number, ``reduce`` and the like keep a running result, joins meet other
    keyed streams.
    Steps behind these have no key any more: call ``key_by`` again for the next.

    >>> temperatures = env.from_collection([("roof", 20), ("hall", 18), ("roof", 25)])
    >>> list(temperatures.key_by(lambda t: t[0]).max(1).execute_and_collect())
    [('roof', 20), ('hall', 18), ('roof', 25)]
    """

    AccumulateType = Accumulate

    def __init__(self, stream: DataStream[T_co], keys: Hash) -> None:
        links = stream._partition(keys)._links
        super().__init__(stream._env, links)
        self._origin = stream
        self.keys = keys

    def _keyed(
        self, name: str, factory: Any, output_type: DeclaredType = None, **properties: Any
    ) -> DataStream[Any]:
        return self._add(name, factory, keyed=True, stateful=True, output_type=output_type, **properties)

    def map(
        self, func: Callable[[T_co], R] | MapFunction[T_co, R], output_type: DeclaredType = None
    ) -> DataStream[R]:
        """One record out for each record in; the function may use keyed state."""
        return self._keyed("Map", made(MapOperator, func, True), output_type)

    def flat_map(
        self,
        func: Callable[[T_co], Iterable[R] | None] | FlatMapFunction[T_co, R],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Any number of records out; the function may use keyed state."""
        return self._keyed("Flat Map", made(FlatMapOperator, func, True), output_type)

    def filter(self, func: Callable[[T_co], bool] | FilterFunction[T_co]) -> DataStream[T_co]:
        """The records for which ``func`` is true; the function may use keyed state."""
        return self._add_same_type("Filter", made(FilterOperator, func, True), keyed=True, stateful=True)

    def reduce(self, func: Callable[[T_co, T_co], T_co] | ReduceFunction[Any]) -> DataStream[T_co]:
        """The running reduction of each key, emitted for every record; in BATCH mode once, at the end.

        ``func``: a function of what was gathered and the record, or a ``ReduceFunction``.

        >>> pairs = env.from_collection([("a", 2), ("a", 3)]).key_by(lambda pair: pair[0])
        >>> list(pairs.reduce(lambda x, y: (x[0], x[1] * y[1])).execute_and_collect())
        [('a', 2), ('a', 6)]
        """
        return self._keyed("Reduce", made(KeyedReduceOperator, func), self.get_type())

    def _accumulate(self, kind: Accumulate, field: int | str) -> DataStream[T_co]:
        factory = partial(KeyedReduceOperator, field_reducer(kind, field))
        name = kind.name.replace("_", " ").title()
        return self._keyed(name, factory, self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Running sum of a field, by position or name; the other fields are those of the first record."""
        return self._accumulate(Accumulate.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Running minimum of a field; the other fields are those of the first record."""
        return self._accumulate(Accumulate.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Running maximum of a field; the other fields are those of the first record."""
        return self._accumulate(Accumulate.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """The record with the smallest field so far."""
        return self._accumulate(Accumulate.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """The record with the largest field so far."""
        return self._accumulate(Accumulate.MAX_BY, position_to_max_by)

    def process(
        self,
        func: ProcessFunction[T_co, R] | KeyedProcessFunction[KEY, T_co, R],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """A ``KeyedProcessFunction``, with state and timers of each key; there is an example with it.

        ``output_type``: the type of the results, to which they are converted.
        """
        if isinstance(func, ProcessFunction):
            return self._keyed("Process", made(ProcessOperator, func), output_type)
        if not isinstance(func, KeyedProcessFunction):
            raise GraphError(
                f"process on a keyed stream takes a KeyedProcessFunction, not {type(func).__name__}",
                code=Code.NO_STEP_HERE,
            )
        return self._keyed("Keyed Process", made(KeyedProcessOperator, func), output_type)

    def window(self, window_assigner: WindowAssigner[Any, W]) -> _windowed.WindowedStream[T_co, KEY, W]:
        """Group the records of each key into windows; then say what to compute: ``reduce``, ``process``, ...

        ``window_assigner``: one of ``penstock.datastream.window``, as in
        ``window(TumblingEventTimeWindows.of("1 min"))``.
        Windows of event time need watermarks, and emit when the watermark has passed their end.
        """
        return _windowed.WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> _windowed.WindowedStream[T_co, KEY, CountWindow]:
        """Windows of ``size`` records of a key, a new one every ``slide`` records."""
        if slide:
            return self.window(CountSlidingWindowAssigner(size, slide))
        return self.window(CountTumblingWindowAssigner(size))

    def interval_join(self, other_stream: KeyedStream[Any, Any], how: str = "inner") -> _joined.IntervalJoin:
        """Pairs of records with equal keys whose times are close: ``.between(lower, upper).process(f)``."""
        return _joined.IntervalJoin(self, other_stream, how)

    def temporal_join(self, versions: KeyedStream[Any, Any], how: str = "inner") -> _joined.TemporalJoin:
        """Each record with the version of its key that was valid at its time: ``.process(f)``.

        ``versions`` is a table as a stream: each record is valid from its time until the next of its key.
        """
        return _joined.TemporalJoin(self, versions, how)

    @overload
    def key_by(
        self, key_selector: str, key_type: str | DeclaredType = None, *more: str
    ) -> KeyedStream[T_co, Any]: ...

    @overload
    def key_by(
        self, key_selector: Callable[[T_co], K] | KeySelector[T_co, K], key_type: DeclaredType = None
    ) -> KeyedStream[T_co, K]: ...

    def key_by(self, key_selector: Any, key_type: Any = None, *more: str) -> KeyedStream[T_co, Any]:
        """Key the original stream anew."""
        return self._origin.key_by(key_selector, key_type, *more)

    def union(self, *streams: DataStream[S]) -> DataStream[T_co | S]:
        """The records of all streams, without keys."""
        plain = [stream._origin if isinstance(stream, KeyedStream) else stream for stream in streams]
        return self._origin.union(*plain)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the driver's standard output; as in PyFlink, without the identifier."""
        return self._origin.print()

    def keyed_links(self, input_index: int) -> tuple[Link, ...]:
        """Links for one of the inputs of a two-input step."""
        return tuple(Link(link.source, link.tag, link.partitioning, input_index) for link in self._links)

    # --- what a keyed stream does not have --------------------------------------------------

    def broadcast(self, *args: object, **kwargs: object) -> NoReturn:
        """Broadcasting undoes keys."""
        raise GraphError(
            "a keyed stream is already partitioned; call broadcast() before key_by()", code=Code.NO_STEP_HERE
        )

    def cache(self) -> NoReturn:
        """Cached are the results of a step."""
        raise GraphError(
            "a keyed stream has no step of its own; call cache() before key_by()", code=Code.NO_STEP_HERE
        )

    def _partition(self, partitioning: Partitioning) -> NoReturn:
        raise GraphError(
            "a keyed stream is already partitioned; repartition before key_by()", code=Code.NO_STEP_HERE
        )

    def _node(self) -> Node:
        raise GraphError(
            "a keyed stream has no step of its own; call this before key_by()", code=Code.NO_STEP_HERE
        )

    def get_side_output(self, output_tag: object) -> NoReturn:
        """Side outputs belong to steps."""
        raise GraphError(
            "a keyed stream has no side outputs; ask the step before key_by()", code=Code.NO_STEP_HERE
        )


from penstock.datastream import _joined, _windowed  # noqa: E402 - see _stream.py
