"""Contents of a window with an evictor: all elements, each with its timestamp, whatever evaluates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.metrics import MetricGroup
from penstock.operators.operator import OperatorContext
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.evictors import Evictor, TimestampedValue
from penstock.operators.window.window_state import ListContents, WindowContents
from penstock.operators.window.windows import Window
from penstock.state.keyed import KeyedState


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

    def evaluate(self, entry: tuple[Any, Any], window: Window, emit: Callable[[list[Any]], None]) -> None:
        """Evict, have ``emit`` evaluate what is left, evict again and keep the rest.

        ``emit`` is called for any window that held elements, even if none is left.
        """
        stored = self._table.get(entry)
        if stored is None:
            return
        elements = [TimestampedValue(value, time) for value, time in stored]
        seen = list(self._evictor.evict_before(elements, window, self._context))
        emit(self._inner.of_list([self.own(element.value) for element in seen]))
        kept = [(value, time) for value, time in self._evictor.evict_after(seen, window, self._context)]
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
