"""Functions over the contents of a window.  PyFlink's names and signatures.

``apply`` and ``process`` return an iterable of results, are generators, or return ``None``;
``yield tag, value`` goes to a side output.  Results carry the window's last timestamp.  With a
reduce or aggregate function in front, the iterable they see holds exactly one element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic

from penstock.core.type_vars import IN, KEY, OUT
from penstock.operators.functions import Function, Results
from penstock.operators.runtime_context import KeyedStateStore
from penstock.operators.window.windows import W2, W


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of one key, for ``WindowedStream.apply``.

    >>> class Spread(WindowFunction[int, tuple[str, int], str, CountWindow]):
    ...     def apply(self, key, window, inputs):
    ...         values = list(inputs)
    ...         yield key, max(values) - min(values)
    >>> keyed = env.from_collection([5, 1, 9]).key_by(lambda n: "all")
    >>> list(keyed.count_window(3).apply(Spread()).execute_and_collect())
    [('all', 8)]
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Results[OUT]:
        """The results for ``inputs``."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window over the whole stream."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Results[OUT]:
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
    """Evaluates a window of one key, with access to time and state, for ``WindowedStream.process``.

    Called by the task's thread whenever the window's trigger fires: at the end of the window, and again for
    late records if they are allowed.  What it yields carries the window's last timestamp.

    >>> class Count(ProcessWindowFunction[tuple[str, int], tuple[str, int, int], str, TimeWindow]):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().start, len(list(elements))
    >>> clicks = env.from_collection([("ann", 1), ("ann", 2), ("ann", 1500)])
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda c, _: c[1])
    >>> keyed = clicks.assign_timestamps_and_watermarks(by_time).key_by(lambda click: click[0])
    >>> seconds = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    >>> list(seconds.process(Count()).execute_and_collect())
    [('ann', 0, 2), ('ann', 1000, 1)]
    """

    class Context(_WindowContext[W2]):
        """What ``process`` and ``clear`` may ask for."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Results[OUT]:
        """The results for ``elements``: return an iterable, yield, or return ``None``.

        ``elements`` holds what the window keeps, or the one value that ``reduce`` or ``aggregate`` made.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """The window is about to be forgotten: clear what you put into ``window_state``."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window over the whole stream, with access to time and state."""

    class Context(_WindowContext[W2]):
        """What ``process`` and ``clear`` may ask for."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Results[OUT]:
        """The results for ``elements``: return an iterable, yield, or return ``None``.

        ``elements`` holds what the window keeps, or the one value that ``reduce`` or ``aggregate`` made.
        """

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """The window is about to be forgotten: clear what you put into ``window_state``."""
