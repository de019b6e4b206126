"""Functions over the contents of a window.  PyFlink's names and signatures.

``apply`` and ``process`` return an iterable of results, are generators, or return ``None``;
``yield tag, value`` goes to a side output.  Results carry the window's last timestamp.  With a
reduce or aggregate function in front, the iterable they see holds exactly one element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from penstock.operators.functions import Function
from penstock.operators.runtime_context import KeyedStateStore
from penstock.operators.window.windows import Window

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2", bound=Window)


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The results for ``inputs``."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window over the whole stream."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The results for ``inputs``."""


class _WindowContext(ABC, Generic[W2]):
    """What both process functions may ask for. One object is reused: do not keep it."""

    @abstractmethod
    def window(self) -> W2:
        """The window that is evaluated or cleared."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock, in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window; clear it in ``clear``. Not for windows that merge."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, shared by all its windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of one key, with access to time and state."""

    class Context(_WindowContext[W2]):
        """What ``process`` and ``clear`` may ask for."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[Any], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """The results for ``elements``."""

    def clear(self, context: ProcessWindowFunction.Context[Any]) -> None:
        """The window is about to be forgotten: clear what you put into ``window_state``."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window over the whole stream, with access to time and state."""

    class Context(_WindowContext[W2]):
        """What ``process`` and ``clear`` may ask for."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[Any], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """The results for ``elements``."""

    def clear(self, context: ProcessAllWindowFunction.Context[Any]) -> None:
        """The window is about to be forgotten: clear what you put into ``window_state``."""
