"""Evictors: drop elements of a window around its evaluation.

A window with an evictor keeps every element with its timestamp, also for reduce and aggregate: what an
evictor will take away cannot be known before.  At each firing the elements pass ``evict_before``, the
window function sees what is left, and what ``evict_after`` leaves of that stays in the window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple

from penstock.core.copying import Copier, itself
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.metrics import MetricGroup
from penstock.core.type_vars import T
from penstock.operators.operator import OperatorContext
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.window_state import ListContents, WindowContents
from penstock.operators.window.windows import W, Window
from penstock.state.keyed import KeyedState


class TimestampedValue(NamedTuple):
    """An element as evictors see it. ``timestamp`` is ``MIN_TIME`` if the element has none."""

    value: Any
    timestamp: int

    def has_timestamp(self) -> bool:
        """Whether the element came with an event time."""
        return self.timestamp != MIN_TIME


Elements = Sequence[TimestampedValue]
_stamped: Callable[[tuple[Any, int]], TimestampedValue] = partial(tuple.__new__, TimestampedValue)
"""The same as calling the class, for all elements of a window at once."""


class Evictor(ABC, Generic[T, W]):
    """Says which elements of a window stay. One object serves all windows and keys: keep no state in it.

    Called by the window operator at each firing, elements in order of arrival: ``evict_before``, then
    the window function, then ``evict_after`` with what ``evict_before`` left.  Both return the elements
    to keep; the sequence they are given must not be changed.
    """

    class EvictorContext(ABC):
        """What an evictor may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The clock, in milliseconds."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """How far event time has come."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where to register metrics."""

    @abstractmethod
    def evict_before(self, elements: Elements, window: W, ctx: Evictor.EvictorContext) -> Elements:
        """What the window function is to see."""

    @abstractmethod
    def evict_after(self, elements: Elements, window: W, ctx: Evictor.EvictorContext) -> Elements:
        """What the window is to keep."""


class _OneSided(Evictor[T, W]):
    """Evicts by one rule, before the function or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    @abstractmethod
    def kept(self, elements: Elements) -> Elements:
        """The elements that the rule leaves."""

    def evict_before(self, elements: Elements, window: W, ctx: Evictor.EvictorContext) -> Elements:
        return elements if self._after else self.kept(elements)

    def evict_after(self, elements: Elements, window: W, ctx: Evictor.EvictorContext) -> Elements:
        return self.kept(elements) if self._after else elements


class CountEvictor(_OneSided[T, W]):
    """Keeps the last ``max_count`` elements."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        if max_count < 0:
            raise ConfigError(f"a CountEvictor keeps 0 elements or more; got {max_count}")
        super().__init__(do_evict_after)
        self._count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """Keep the last ``max_count``."""
        return CountEvictor(max_count, do_evict_after)

    def kept(self, elements: Elements) -> Elements:
        return elements[max(0, len(elements) - self._count) :]

    def __repr__(self) -> str:
        return f"CountEvictor({self._count})"


class TimeEvictor(_OneSided[T, W]):
    """Keeps elements less than ``window_size`` older than the newest; all, if the first has no time."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        if window_size < 0:
            raise ConfigError(f"the window of a TimeEvictor must be 0 ms or more; got {window_size}")
        super().__init__(do_evict_after)
        self._size = window_size

    @staticmethod
    def of(window_size: DurationLike, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """Keep what is less than ``window_size`` older than the newest element."""
        return TimeEvictor(to_millis(window_size), do_evict_after)

    def kept(self, elements: Elements) -> Elements:
        if not elements or not elements[0].has_timestamp():
            return elements
        limit = max(element.timestamp for element in elements) - self._size
        return [element for element in elements if element.timestamp > limit]

    def __repr__(self) -> str:
        return f"TimeEvictor({self._size})"


class DeltaEvictor(_OneSided[T, W]):
    """Keeps elements whose ``delta_function(element, last element)`` is below ``threshold``."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor[Any, Any]:
        """Keep what is nearer than ``threshold`` to the last element."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def kept(self, elements: Elements) -> Elements:
        if not elements:
            return elements
        last = elements[-1].value
        return [element for element in elements if self._delta(element.value, last) < self._threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self._threshold})"


class EvictingContents(ListContents):
    """A list of (value, timestamp) per window; ``inner`` says what a function sees of what is left.

    Plain tuples are stored, not :class:`TimestampedValue`: snapshots then need no class of ours.
    """

    _context: _Context

    def __init__(self, inner: WindowContents, evictor: Evictor[Any, Any]) -> None:
        super().__init__()
        self._inner = inner
        self._evictor = evictor

    def open(self, keyed: KeyedState, runtime_context: RuntimeContext) -> None:
        super().open(keyed, runtime_context)
        self._inner.open(keyed, runtime_context)

    def close(self) -> None:
        self._inner.close()

    def bind(self, ctx: OperatorContext) -> None:
        """Give the evictor its clocks; called once, before the first firing."""
        self._context = _Context(ctx)

    def evaluate(
        self,
        entry: tuple[Any, Any],
        window: Window,
        emit: Callable[[list[Any]], None],
        own: Copier,
        is_last: bool,
    ) -> None:
        """Evict, have ``emit`` evaluate what is left, evict again and keep the rest.

        ``emit`` is called for any window that held elements, even if none is left, with what ``own`` makes
        of them.  If it ``is_last``, the caller drops the contents, and nothing is kept.
        """
        stored = self._table.get(entry)
        if stored is None:
            return
        elements = list(map(_stamped, stored))
        seen = list(self._evictor.evict_before(elements, window, self._context))
        values = [element[0] for element in seen]
        emit(self._inner.of_list(values if own is itself else list(map(own, values))))
        left = self._evictor.evict_after(seen, window, self._context)
        if is_last:
            return
        kept = [(value, time) for value, time in left]
        if kept:
            self._table.put(entry, kept)
        else:
            self._table.remove(entry)


class _Context(Evictor.EvictorContext):
    """Clocks and metrics of the operator."""

    def __init__(self, ctx: OperatorContext) -> None:
        self._clock = ctx.clock
        self._timers = ctx.timers
        self._metrics = ctx.metrics

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms()

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def get_metric_group(self) -> MetricGroup:
        return self._metrics
