"""What a built-in function says of itself: for argument types, the types it wants and gives, and its kernel.

A kernel gets Arrow arrays or scalars of the types it asked for, at least one of them an array unless the
whole call is constant, and returns an array of that length (or a scalar).  Nulls go in and come out; a
kernel that raises for some values says so with ``fails``, and is then computed only for rows that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError

Value = Any
"""A ``pa.Array`` or a ``pa.Scalar``; pyarrow has no types of its own for checkers."""
Kernel = Callable[..., Value]


class Unfit(ConfigError):
    """Arguments that a function does not take; the expression is added by who knows it."""

    code = Code.ARGUMENT_TYPES


@dataclass(frozen=True)
class Overload:
    """A function for certain argument types."""

    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    kernel: Kernel
    fails: bool = False


def all_null(takes: tuple[pa.DataType, ...], gives: pa.DataType) -> Overload:
    """A function of a constant that is null: so is every result."""
    return Overload(takes, gives, lambda *_: pa.scalar(None, gives))


@dataclass(frozen=True)
class Arguments:
    """What a function is called with: types and, for constants, values."""

    types: tuple[pa.DataType, ...]
    constants: tuple[pa.Scalar | None, ...]

    def constant(self, index: int, what: str) -> Any:
        """The Python value of an argument that must be constant."""
        found = self.constants[index]
        if found is None:
            raise Unfit(f"{what} must be a constant")
        return found.as_py()


Resolve = Callable[[Arguments], Overload]


@dataclass(frozen=True)
class Function:
    """A name, how many arguments, and how to choose among its overloads."""

    name: str
    least: int
    most: int | None
    resolve: Resolve


FUNCTIONS: dict[str, Function] = {}


def function(name: str, least: int, most: int | None = None) -> Callable[[Resolve], Resolve]:
    """Adds a function of ``least`` to ``most`` arguments; without ``most`` exactly ``least``, with -1 any."""

    def add(resolve: Resolve) -> Resolve:
        upper = least if most is None else None if most < 0 else most
        FUNCTIONS[name] = Function(name, least, upper, resolve)
        return resolve

    return add


def fixed(
    name: str, takes: Sequence[pa.DataType], gives: pa.DataType, kernel: Kernel, *, least: int | None = None
) -> None:
    """Adds a function with one overload that cannot fail; arguments behind ``least`` may be left out."""

    def resolve(arguments: Arguments) -> Overload:
        return Overload(tuple(takes[: len(arguments.types)]), gives, kernel)

    function(name, len(takes) if least is None else least, len(takes))(resolve)


def every(arguments: Arguments, fits: Callable[[pa.DataType], bool], what: str) -> None:
    """Raises unless all arguments are of the kind, or null."""
    for kind in arguments.types:
        if not (fits(kind) or pa.types.is_null(kind)):
            raise Unfit(f"it takes {what}, not {kind}")


def on_arrays(kernel: Kernel) -> Kernel:
    """A kernel that knows arrays of one length only, also for constants."""

    def widened(*arguments: Value) -> Value:
        length = next((len(it) for it in arguments if isinstance(it, pa.Array)), None)
        rows = 1 if length is None else length
        found = kernel(*(it if isinstance(it, pa.Array) else pa.repeat(it, rows) for it in arguments))
        return found[0] if length is None else found

    return widened


def once_each(compute: Kernel) -> Kernel:
    """A kernel of one argument that is computed once for each different value, where many are equal."""

    def kernel(value: Value) -> Value:
        if isinstance(value, pa.Scalar) or len(value) < _FEW:
            return compute(value)
        once = pc.dictionary_encode(value)
        if 2 * len(once.dictionary) > len(value):
            return compute(value)
        return compute(once.dictionary).take(once.indices)

    return kernel


_FEW = 64
"""Rows for which it is not worth to look for equal values."""
