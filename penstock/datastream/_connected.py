"""Two streams into one function: connect, and the broadcast state pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic

from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.type_vars import K, R, T, V
from penstock.core.typeinfo import DeclaredType
from penstock.datastream._keyed import KeyedStream
from penstock.datastream._stream import DataStream, made, together
from penstock.graph.nodes import Link
from penstock.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from penstock.operators.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.operators.process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from penstock.state.descriptors import MapStateDescriptor


def _input(stream: DataStream[Any], index: int) -> tuple[Link, ...]:
    return tuple(replace(link, input_index=index) for link in stream._links)


class ConnectedStreams(Generic[T, V]):
    """Two streams that share a function, and state if both are keyed alike; from ``DataStream.connect``.

    The function has a method for each stream, called by one thread; there is no order between the streams.

    >>> numbers, texts = env.from_collection([1]), env.from_collection(["a"])
    >>> class Both(CoMapFunction):
    ...     def map1(self, value):
    ...         return value
    ...     def map2(self, value):
    ...         return ord(value)
    >>> sorted(numbers.connect(texts).map(Both()).execute_and_collect())
    [1, 97]
    """

    def __init__(self, stream1: DataStream[T], stream2: DataStream[V]) -> None:
        together(stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    @property
    def _keyed(self) -> bool:
        first, second = isinstance(self.stream1, KeyedStream), isinstance(self.stream2, KeyedStream)
        if first != second:
            raise GraphError("connect() needs both streams keyed, or neither", code=Code.NOT_KEYED)
        return first

    def _add(self, name: str, factory: Any, output_type: DeclaredType) -> DataStream[Any]:
        keyed = self._keyed
        return self.stream1._add(
            name,
            factory,
            links=_input(self.stream1, 0) + _input(self.stream2, 1),
            keyed=keyed,
            stateful=keyed,
            output_type=output_type,
        )

    def key_by(
        self,
        key_selector1: str | Callable[[T], K] | KeySelector[T, K],
        key_selector2: str | Callable[[V], K] | KeySelector[V, K],
        key_type: DeclaredType = None,
    ) -> ConnectedStreams[T, V]:
        """Key both streams, so that equal keys meet: a selector or the name of a field for each."""
        first: Any = key_selector1
        second: Any = key_selector2
        return ConnectedStreams(self.stream1.key_by(first), self.stream2.key_by(second))

    def map(self, func: CoMapFunction[T, V, R], output_type: DeclaredType = None) -> DataStream[R]:
        """A ``CoMapFunction``; ``None`` results are dropped."""
        return self._add("Co-Map", made(CoMapOperator, func, self._keyed), output_type)

    def flat_map(self, func: CoFlatMapFunction[T, V, R], output_type: DeclaredType = None) -> DataStream[R]:
        """A ``CoFlatMapFunction``."""
        return self._add("Co-Flat Map", made(CoFlatMapOperator, func, self._keyed), output_type)

    def process(
        self,
        func: CoProcessFunction[T, V, R] | KeyedCoProcessFunction[Any, T, V, R],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """A ``CoProcessFunction``, or a ``KeyedCoProcessFunction`` if the streams are keyed."""
        if isinstance(func, KeyedCoProcessFunction):
            if not self._keyed:
                raise GraphError(
                    "a KeyedCoProcessFunction needs keyed streams: call key_by() first", code=Code.NOT_KEYED
                )
            return self._add("Keyed Co-Process", made(KeyedCoProcessOperator, func), output_type)
        if not isinstance(func, CoProcessFunction):
            raise GraphError(f"process takes a CoProcessFunction, not {type(func).__name__}")
        return self._add("Co-Process", made(CoProcessOperator, func), output_type)


class BroadcastStream(Generic[T]):
    """A stream whose every record reaches every subtask, with the maps it feeds; from ``broadcast``.

    >>> rules = env.from_collection(["no spam"]).broadcast(MapStateDescriptor("rules", Types.STRING()))
    >>> [descriptor.get_name() for descriptor in rules.broadcast_state_descriptors]
    ['rules']

    To be connected with another stream: see ``BroadcastProcessFunction``.
    """

    def __init__(
        self,
        input_stream: DataStream[T],
        broadcast_state_descriptors: Sequence[MapStateDescriptor[Any, Any]],
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream(Generic[T, V]):
    """A stream connected with a broadcast stream: ``process`` with a ``BroadcastProcessFunction``.

    >>> SEEN = MapStateDescriptor("seen", Types.STRING(), Types.BOOLEAN())
    >>> class Pass(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(SEEN).put(value, True)
    >>> connected = env.from_collection([1]).connect(env.from_collection(["rule"]).broadcast(SEEN))
    >>> list(connected.process(Pass()).execute_and_collect())
    [1]
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream[T],
        broadcast_stream: BroadcastStream[V],
        broadcast_state_descriptors: Sequence[MapStateDescriptor[Any, Any]],
    ) -> None:
        together(non_broadcast_stream, broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[T, V, R] | KeyedBroadcastProcessFunction[Any, T, V, R],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """A ``BroadcastProcessFunction``, or the keyed one if the stream is keyed."""
        main, spread = self.non_broadcast_stream, self.broadcast_stream.input_stream
        keyed = isinstance(main, KeyedStream)
        wanted = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        if not isinstance(func, wanted):
            raise GraphError(f"process takes a {wanted.__name__} here, not {type(func).__name__}")
        kind: Any = KeyedBroadcastProcessOperator if keyed else BroadcastProcessOperator
        return main._add(
            "Broadcast Process",
            made(kind, func, self.broadcast_state_descriptors),
            links=_input(main, 0) + _input(spread, 1),
            keyed=keyed,
            stateful=True,
            output_type=output_type,
        )
