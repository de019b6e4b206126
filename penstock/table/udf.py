"""PyFlink's ``table.udf``: Python functions in expressions and statements."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.expressions.face import udf as _udf
from penstock.table.types import arrow_of

__all__ = ["ScalarFunction", "udaf", "udf", "udtaf", "udtf"]

_AGGREGATES = (
    "is not there: COUNT, SUM, MIN, MAX and AVG are; others are written as a ProcessWindowFunction on "
    "to_data_stream(), see docs/guides/windows.md"
)


class ScalarFunction(ABC):
    """A function with a beginning: ``open`` is called once before the first ``eval``, in each slot.

    ``close`` is taken and not called: what must be closed belongs into a function on a stream.
    """

    def open(self, function_context: Any) -> None:  # noqa: B027 - may be left out
        """Make ready."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """The value for some arguments."""


class _Opened:
    """Calls ``eval``, behind ``open``."""

    def __init__(self, function: ScalarFunction) -> None:
        self._function = function
        self._ready = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_function": self._function, "_ready": False}

    def __call__(self, *arguments: Any) -> Any:
        if not self._ready:
            self._function.open(None)
            self._ready = True
        return self._function.eval(*arguments)


class _OnSeries:
    """A function of pandas Series, for Arrow's arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        length = next((len(it) for it in arguments if isinstance(it, pa.Array)), 1)
        arrays = (it if isinstance(it, pa.Array) else pa.repeat(it, length) for it in arguments)
        found = self._function(*(it.to_pandas() for it in arrays))
        return pa.Array.from_pandas(found)


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Makes a function of one row, or of pandas Series with ``func_type="pandas"``, part of expressions.

    >>> shout = udf(lambda text: text.upper() + "!", result_type="STRING")
    >>> str(shout(penstock.table.expressions.col("word")))
    '<lambda>(word)'
    """
    kind = udf_type or func_type
    if kind not in ("general", "pandas"):
        raise ConfigError(f"a function is 'general' or 'pandas', not {kind!r}")
    if result_type is None:
        raise ConfigError("udf needs the type of what the function returns: result_type=DataTypes.BIGINT()")
    if f is None:
        return functools.partial(udf, result_type=result_type, name=name, func_type=kind)
    called = name or getattr(f, "__name__", type(f).__name__)
    function = _Opened(f) if isinstance(f, ScalarFunction) else f
    if kind == "pandas":
        function = _OnSeries(function)
    arrow = "arrow" if kind == "pandas" else "general"
    return _udf(function, result_type=arrow_of(result_type), func_type=arrow, name=called)


def udtf(*_: Any, **__: Any) -> NoReturn:
    """Refused: several rows of one."""
    raise ConfigError("udtf is not there: flat_map on to_data_stream(table) makes several rows of one")


def udaf(*_: Any, **__: Any) -> NoReturn:
    """Refused: aggregates in Python."""
    raise ConfigError(f"udaf {_AGGREGATES}")


def udtaf(*_: Any, **__: Any) -> NoReturn:
    """Refused: aggregates in Python of several rows."""
    raise ConfigError(f"udtaf {_AGGREGATES}")
