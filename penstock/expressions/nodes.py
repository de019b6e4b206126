"""An expression as data: frozen nodes that are compared, hashed and shipped like any value.

The text of a node is SQL-like and stable: partial results in snapshots are named after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "concat": "||",
    "like": "LIKE",
}
"""Functions of two arguments that are written between them."""


class Node(ABC):
    """One part of an expression."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Node, ...]:
        """The nodes it is made of."""

    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once, in the order of their first mention."""
        return tuple(dict.fromkeys(node.name for node in self.walk() if isinstance(node, Column)))

    def walk(self) -> Iterator[Node]:
        """The node and everything below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Column(Node):
    """A column of the input, by name."""

    name: str

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal(Node):
    """A constant.  Compared by type and text: ``1``, ``1.0`` and ``True`` are three."""

    value: Any = field(compare=False)
    type: pa.DataType
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", _shown(self.value))

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True)
class Call(Node):
    """A built-in function of its arguments."""

    function: str
    arguments: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.arguments

    def __str__(self) -> str:
        sign = INFIX.get(self.function)
        if sign is not None and len(self.arguments) == 2:
            return f"({self.arguments[0]} {sign} {self.arguments[1]})"
        return f"{self.function.upper()}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Cast(Node):
    """The argument as another type; what cannot be converted is an error or, if ``tolerant``, null."""

    argument: Node
    type: pa.DataType
    tolerant: bool = False

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.argument,)

    def __str__(self) -> str:
        return f"{'TRY_' if self.tolerant else ''}CAST({self.argument} AS {self.type})"


@dataclass(frozen=True)
class Case(Node):
    """The value of the first branch whose condition is true; it is computed only for rows that take it."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.branches)
        return f"CASE {whens} ELSE {self.otherwise} END"


@dataclass(frozen=True)
class PythonCall(Node):
    """A function of the user's: once per row with plain values, or once per batch with Arrow arrays."""

    function: Callable[..., Any]
    arguments: tuple[Node, ...]
    type: pa.DataType
    vectorised: bool
    name: str

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.arguments

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value) if isinstance(value, int | float) else f"'{value}'"
