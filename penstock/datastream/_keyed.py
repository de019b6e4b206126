"""``KeyedStream``: a stream partitioned by key, where state lives."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from penstock.core.errors import GraphError
from penstock.datastream._sink import DataStreamSink
from penstock.datastream._stream import DataStream, made
from penstock.exchange.partition import Hash, Partitioning
from penstock.graph.nodes import Link, Node
from penstock.operators.aggregate import AccumulateType as Accumulate
from penstock.operators.aggregate import KeyedReduceOperator, field_reducer
from penstock.operators.functions import KeyedProcessFunction, ProcessFunction
from penstock.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.operators.window.counting import CountSlidingWindowAssigner, CountTumblingWindowAssigner


class KeyedStream(DataStream):
    """A stream whose records with equal keys meet on one subtask."""

    AccumulateType = Accumulate

    def __init__(self, stream: DataStream, keys: Hash) -> None:
        links = stream._partition(keys)._links
        super().__init__(stream._env, links)
        self._origin = stream
        self.keys = keys

    def _keyed(self, name: str, factory: Any, output_type: Any = None, **properties: Any) -> DataStream:
        return self._add(name, factory, keyed=True, stateful=True, output_type=output_type, **properties)

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """One record out for each record in; the function may use keyed state."""
        return self._keyed("Map", made(MapOperator, func, True), output_type)

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Any number of records out; the function may use keyed state."""
        return self._keyed("Flat Map", made(FlatMapOperator, func, True), output_type)

    def filter(self, func: Any) -> DataStream:
        """The records for which ``func`` is true; the function may use keyed state."""
        return self._add_same_type("Filter", made(FilterOperator, func, True), keyed=True, stateful=True)

    def reduce(self, func: Any) -> DataStream:
        """The running reduction of each key, emitted for every record."""
        return self._keyed("Reduce", made(KeyedReduceOperator, func), self.get_type())

    def _accumulate(self, kind: Accumulate, field: int | str) -> DataStream:
        factory = partial(KeyedReduceOperator, field_reducer(kind, field))
        name = kind.name.replace("_", " ").title()
        return self._keyed(name, factory, self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Running sum of a field."""
        return self._accumulate(Accumulate.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Running minimum of a field; the other fields are those of the first record."""
        return self._accumulate(Accumulate.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Running maximum of a field; the other fields are those of the first record."""
        return self._accumulate(Accumulate.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the smallest field so far."""
        return self._accumulate(Accumulate.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the largest field so far."""
        return self._accumulate(Accumulate.MAX_BY, position_to_max_by)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """A function with keyed state and timers."""
        if isinstance(func, ProcessFunction):
            return self._keyed("Process", made(ProcessOperator, func), output_type)
        if not isinstance(func, KeyedProcessFunction):
            raise GraphError(
                f"process on a keyed stream takes a KeyedProcessFunction, not {type(func).__name__}"
            )
        return self._keyed("Keyed Process", made(KeyedProcessOperator, func), output_type)

    def window(self, window_assigner: Any) -> _windowed.WindowedStream:
        """Group the records of each key into windows."""
        return _windowed.WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> _windowed.WindowedStream:
        """Windows of ``size`` records of a key, a new one every ``slide`` records."""
        if slide:
            return self.window(CountSlidingWindowAssigner(size, slide))
        return self.window(CountTumblingWindowAssigner(size))

    def interval_join(self, other_stream: KeyedStream, how: str = "inner") -> _joined.IntervalJoin:
        """Pairs of records with equal keys whose times are close: ``.between(lower, upper).process(f)``."""
        return _joined.IntervalJoin(self, other_stream, how)

    def temporal_join(self, versions: KeyedStream, how: str = "inner") -> _joined.TemporalJoin:
        """Each record with the version of its key that was valid at its time: ``.process(f)``.

        ``versions`` is a table as a stream: each record is valid from its time until the next of its key.
        """
        return _joined.TemporalJoin(self, versions, how)

    def key_by(self, key_selector: Any, key_type: Any = None, *more: str) -> KeyedStream:
        """Key the original stream anew."""
        return self._origin.key_by(key_selector, key_type, *more)

    def union(self, *streams: DataStream) -> DataStream:
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

    def broadcast(self, *args: Any) -> NoReturn:
        """Broadcasting undoes keys."""
        raise GraphError("a keyed stream is already partitioned; call broadcast() before key_by()")

    def cache(self) -> NoReturn:
        """Cached are the results of a step."""
        raise GraphError("a keyed stream has no step of its own; call cache() before key_by()")

    def _partition(self, partitioning: Partitioning) -> DataStream:
        raise GraphError("a keyed stream is already partitioned; repartition before key_by()")

    def _node(self) -> Node:
        raise GraphError("a keyed stream has no step of its own; call this before key_by()")

    def get_side_output(self, output_tag: Any) -> NoReturn:
        """Side outputs belong to steps."""
        raise GraphError("a keyed stream has no side outputs; ask the step before key_by()")


from penstock.datastream import _joined, _windowed  # noqa: E402 - see _stream.py
