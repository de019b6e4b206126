"""Aggregates within expressions: ``col("price").sum``.  They mean something in ``agg`` only."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.expressions.nodes import Literal, Node


@dataclass(frozen=True)
class AggregateCall(Node):
    """``sum``, ``count``, ``min``, ``max`` or ``avg`` of an expression."""

    function: str
    argument: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.argument,)

    def __str__(self) -> str:
        return f"{self.function.upper()}({self.argument})"


def count_rows() -> AggregateCall:
    """The number of rows, whatever is in them."""
    return AggregateCall("count", Literal(1, pa.int64()))
