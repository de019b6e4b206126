"""Aggregates within expressions: ``col("price").sum``.  They mean something in ``agg`` only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.expressions.nodes import Case, Literal, Node


@dataclass(frozen=True)
class AggregateCall(Node):
    """``sum``, ``count``, ``min``, ``max`` or ``avg`` of an expression."""

    function: str
    argument: Node
    distinct: bool = False
    """Whether each value counts once."""

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.argument,)

    def __str__(self) -> str:
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{self.argument})"


def count_rows() -> AggregateCall:
    """The number of rows, whatever is in them."""
    return AggregateCall("count", Literal(1, pa.int64()))


def distinct_values(node: Node) -> AggregateCall:
    """The aggregate, of each value once."""
    if not isinstance(node, AggregateCall):
        raise ConfigError(f"{node} is no aggregate, so it has no distinct; write {node}.count.distinct")
    return replace(node, distinct=True)


def where(node: Node, condition: Node) -> AggregateCall:
    """The aggregate of the rows for which a condition is true."""
    if not isinstance(node, AggregateCall):
        raise ConfigError(f"{node} is no aggregate, so it has no filter; filter the DataFrame")
    return replace(node, argument=Case(((condition, node.argument),), Literal(None, pa.null())))


def without_condition(argument: Node) -> tuple[Node, Node | None]:
    """The argument of an aggregate and the condition that :func:`where` put around it."""
    if isinstance(argument, Case) and len(argument.branches) == 1 and is_null(argument.otherwise):
        condition, value = argument.branches[0]
        return value, condition
    return argument, None


def is_null(node: Node) -> bool:
    """Whether it is the constant NULL."""
    return isinstance(node, Literal) and node.value is None
