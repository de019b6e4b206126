"""Streams of two environments do not meet: the steps of one are nothing in the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.core.errors import GraphError
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


def first(value: Any) -> Any:
    return value[0]


def stream() -> DataStream[Any]:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


@pytest.mark.parametrize(
    "meet",
    [
        lambda one, other: one.union(other),
        lambda one, other: one.key_by(first).union(other.key_by(first)),
        lambda one, other: one.connect(other),
        lambda one, other: one.key_by(first).connect(other.key_by(first)),
        lambda one, other: one.connect(other.broadcast(RULES)),
        lambda one, other: (
            one.join(other)
            .where(first)
            .equal_to(first)
            .window(TumblingEventTimeWindows.of(Time.seconds(1)))
            .apply(min)
        ),
        lambda one, other: one.key_by(first).interval_join(other.key_by(first)).between(0, 1).process(min),
        lambda one, other: one.key_by(first).temporal_join(other.key_by(first)).process(min),
    ],
    ids=["union", "keyed union", "connect", "keyed connect", "broadcast", "join", "interval", "temporal"],
)
def test_streams_of_two_environments(meet: Callable[[DataStream[Any], DataStream[Any]], Any]) -> None:
    one = stream()
    meet(one, one.map(lambda value: value))
    with pytest.raises(GraphError, match="different environments"):
        meet(one, stream())
