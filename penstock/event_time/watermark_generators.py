"""What makes watermarks out of event times: the contract, and the generators that need no learning.

:mod:`~penstock.event_time.watermark_tracker` calls them; :mod:`~penstock.event_time.learned_lateness` has the
one that finds its bound itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.core.batch import Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime


class WatermarkOutput:
    """Takes what a generator says. A smaller watermark than before is ignored."""

    __slots__ = ("idle", "watermark")

    def __init__(self) -> None:
        self.watermark: EventTime = MIN_TIME
        self.idle = False

    def emit_watermark(self, time: int) -> None:
        """No more records at or before ``time`` are expected. Clears the idle mark."""
        if time > self.watermark:
            self.watermark = EventTime(time)
        self.idle = False

    def mark_idle(self) -> None:
        """Leave this stream out of the watermark until it speaks again."""
        self.idle = True

    def mark_active(self) -> None:
        """Count this stream again."""
        self.idle = False


class WatermarkGenerator(ABC):
    """Makes watermarks. One per split; lives in one thread.

    Called in this order: ``on_event`` for each record, right after it was sent on, so a watermark
    emitted there follows its own record; ``on_periodic_emit`` each
    ``pipeline.auto-watermark-interval``.  A generator that needs only the timestamps, and emits only
    periodically, should override :meth:`on_batch` and is then never called per record.

    Watermarks are never part of a snapshot: after a restore event time starts anew.  A generator that
    has *learned* something keeps it with :meth:`snapshot` and :meth:`restore`.
    """

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """A record was seen."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """The interval has passed."""

    def on_batch(self, times: Times) -> None:
        """Records with these event times were seen; replaces ``on_event`` if overridden."""
        raise NotImplementedError

    def snapshot(self) -> Any:
        """What to keep with the split's position, in plain values; ``None`` keeps nothing."""
        return None

    def restore(self, state: Any) -> None:  # noqa: B027 - optional hook
        """Take back what ``snapshot`` gave, before the first record. Called once for each of several
        when their subtasks became one."""

    def bound_ms(self) -> int | None:
        """How far watermarks are behind the largest timestamp, if that changes: shown as a metric."""
        return None


class BoundedOutOfOrderness(WatermarkGenerator):
    """Largest timestamp seen, less the bound, less one millisecond."""

    def __init__(self, bound_ms: int) -> None:
        if bound_ms < 0:
            raise ConfigError(f"out-of-orderness cannot be negative, it is {bound_ms} ms")
        self._delay = bound_ms + 1
        self._latest: int = MIN_TIME + self._delay

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        self._latest = max(self._latest, timestamp)

    def on_batch(self, times: Times) -> None:
        latest = int(times.max())
        if latest > self._latest:
            self._latest = latest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._latest - self._delay)


class NoWatermarks(WatermarkGenerator):
    """Never says anything: event time does not advance until the input ends."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Nothing follows from a record."""

    def on_batch(self, times: Times) -> None:
        """Nothing follows from records."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Nothing to emit."""
