"""How the user's function, of whichever kind, is called on a window that fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.core.errors import ConfigError
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.contexts import ProcessContext
from penstock.operators.window.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.window.windows import Window

AnyWindowFunction = (
    WindowFunction[Any, Any, Any, Any]
    | AllWindowFunction[Any, Any, Any]
    | ProcessWindowFunction[Any, Any, Any, Any]
    | ProcessAllWindowFunction[Any, Any, Any]
)


class WindowBody(ABC):
    """Evaluates windows; the scope's key and namespace are set before each call."""

    function: AnyWindowFunction | None = None

    def open(self, ctx: OperatorContext, runtime_context: RuntimeContext, merging: bool) -> None:
        """Open the user's function, if there is one."""
        if self.function is not None:
            self.function.open(runtime_context)

    def close(self) -> None:
        """Close the user's function, if there is one."""
        if self.function is not None:
            self.function.close()

    @abstractmethod
    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        """Evaluate ``window`` over ``values``."""

    def clear(self) -> None:  # noqa: B027 - optional hook
        """The scope's window is about to be forgotten."""


class ValueBody(WindowBody):
    """No function: the reduced or aggregated value is the result."""

    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        if values:  # an evictor may have left nothing to reduce
            gathered.add(values[0], window.max_timestamp())


class ApplyBody(WindowBody):
    """``apply`` of a keyed window function."""

    def __init__(self, function: WindowFunction[Any, Any, Any, Any]) -> None:
        self.function = function
        self._apply = function.apply

    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        gathered.add_all(self._apply(key, window, values), window.max_timestamp())


class ApplyAllBody(WindowBody):
    """``apply`` of a window function over the whole stream."""

    def __init__(self, function: AllWindowFunction[Any, Any, Any]) -> None:
        self.function = function
        self._apply = function.apply

    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        gathered.add_all(self._apply(window, values), window.max_timestamp())


class ProcessBody(WindowBody):
    """``process`` of a keyed process window function."""

    _context: ProcessContext

    def __init__(
        self,
        function: ProcessWindowFunction[Any, Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any],
    ) -> None:
        self.function = function
        self._process: Callable[..., Any] = function.process
        self._clear: Callable[[Any], None] = function.clear

    def open(self, ctx: OperatorContext, runtime_context: RuntimeContext, merging: bool) -> None:
        self._context = ProcessContext(ctx, runtime_context, merging)
        super().open(ctx, runtime_context, merging)

    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        gathered.add_all(self._process(key, self._context, values), window.max_timestamp())

    def clear(self) -> None:
        self._clear(self._context)


class ProcessAllBody(ProcessBody):
    """``process`` of a process window function over the whole stream."""

    def emit(self, gathered: Gathered, key: Any, window: Window, values: list[Any]) -> None:
        gathered.add_all(self._process(self._context, values), window.max_timestamp())


def body_for(function: AnyWindowFunction | None) -> WindowBody:
    """The body that calls ``function``."""
    if function is None:
        return ValueBody()
    if isinstance(function, ProcessWindowFunction):
        return ProcessBody(function)
    if isinstance(function, WindowFunction):
        return ApplyBody(function)
    if isinstance(function, ProcessAllWindowFunction):
        return ProcessAllBody(function)
    if isinstance(function, AllWindowFunction):
        return ApplyAllBody(function)
    raise ConfigError(
        f"{type(function).__name__} is not a window function; derive it from WindowFunction or "
        "ProcessWindowFunction, or for window_all from AllWindowFunction or ProcessAllWindowFunction"
    )
