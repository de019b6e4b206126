"""Two streams into one function: connect, and the broadcast state pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.core.errors import GraphError
from penstock.datastream._keyed import KeyedStream
from penstock.datastream._stream import DataStream, made
from penstock.graph.nodes import Link
from penstock.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from penstock.operators.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from penstock.operators.functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.state.descriptors import MapStateDescriptor


def _input(stream: DataStream, index: int) -> tuple[Link, ...]:
    return tuple(replace(link, input_index=index) for link in stream._links)


class ConnectedStreams:
    """Two streams that share a function, and state if both are keyed alike."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    @property
    def _keyed(self) -> bool:
        first, second = isinstance(self.stream1, KeyedStream), isinstance(self.stream2, KeyedStream)
        if first != second:
            raise GraphError("connect() needs both streams keyed, or neither")
        return first

    def _add(self, name: str, factory: Any, output_type: Any) -> DataStream:
        keyed = self._keyed
        return self.stream1._add(
            name,
            factory,
            links=_input(self.stream1, 0) + _input(self.stream2, 1),
            keyed=keyed,
            stateful=keyed,
            output_type=output_type,
        )

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: Any = None) -> ConnectedStreams:
        """Key both streams, so that equal keys meet."""
        return ConnectedStreams(self.stream1.key_by(key_selector1), self.stream2.key_by(key_selector2))

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """A ``CoMapFunction``; ``None`` results are dropped."""
        return self._add("Co-Map", made(CoMapOperator, func, self._keyed), output_type)

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """A ``CoFlatMapFunction``."""
        return self._add("Co-Flat Map", made(CoFlatMapOperator, func, self._keyed), output_type)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """A ``CoProcessFunction``, or a ``KeyedCoProcessFunction`` if the streams are keyed."""
        if isinstance(func, KeyedCoProcessFunction):
            if not self._keyed:
                raise GraphError("a KeyedCoProcessFunction needs keyed streams: call key_by() first")
            return self._add("Keyed Co-Process", made(KeyedCoProcessOperator, func), output_type)
        if not isinstance(func, CoProcessFunction):
            raise GraphError(f"process takes a CoProcessFunction, not {type(func).__name__}")
        return self._add("Co-Process", made(CoProcessOperator, func), output_type)


class BroadcastStream:
    """A stream whose every record reaches every subtask, with the state it feeds."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream connected with a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
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
