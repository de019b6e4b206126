"""What users say about event time: watermark generators and the :class:`WatermarkStrategy`.

A strategy says how timestamps are found, how watermarks follow from them, and when a silent split
counts as idle.  :mod:`penstock.connectors.watermarks` runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.connectors.timestamps import Extract, TimestampAssigner, TimestampExtractor
from penstock.core.batch import Times
from penstock.core.durations import DurationLike, to_millis
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
    """Makes watermarks. One per split; lives in one thread; is not part of snapshots.

    Called in this order: ``on_event`` for each record, right after it was sent on, so a watermark
    emitted there follows its own record; ``on_periodic_emit`` each
    ``pipeline.auto-watermark-interval``.  A generator that needs only the timestamps, and emits only
    periodically, should override :meth:`on_batch` and is then never called per record.
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


@dataclass(frozen=True, slots=True)
class AlignmentSettings:
    """Sources of one ``group`` do not run ahead of its slowest by more than ``max_drift_ms``."""

    group: str
    max_drift_ms: int
    update_ms: int = 1000


class WatermarkStrategy:
    """How event time is found in a stream. The ``with_`` methods may come in any order.

    As in PyFlink, ``with_timestamp_assigner`` changes this strategy and returns it, while
    ``with_idleness`` and ``with_watermark_alignment`` return a new one; unlike in PyFlink, the new one
    keeps the assigner.
    """

    def __init__(self, generator: Callable[[], WatermarkGenerator]) -> None:
        self.create_generator = generator
        self.extractor: TimestampExtractor | None = None
        """``None`` keeps the timestamps the source gave."""
        self.idle_timeout_ms: int | None = None
        self.alignment: AlignmentSettings | None = None

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: DurationLike) -> WatermarkStrategy:
        """Records come at most this much after a later one."""
        bound = to_millis(max_out_of_orderness)
        BoundedOutOfOrderness(bound)
        return WatermarkStrategy(partial(BoundedOutOfOrderness, bound))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps of one split never decrease."""
        return WatermarkStrategy(partial(BoundedOutOfOrderness, 0))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No event time; processing time only."""
        return WatermarkStrategy(NoWatermarks)

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks by a generator of your own: ``factory()`` is called once per split."""
        if not callable(factory):
            raise ConfigError(f"for_generator takes a function that makes a generator, not {factory!r}")
        return WatermarkStrategy(factory)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | Extract) -> WatermarkStrategy:
        """Take event time from an assigner, or from a function of (value, record_timestamp)."""
        self.extractor = TimestampExtractor.of(timestamp_assigner)
        return self

    def with_timestamp_column(self, name: str) -> WatermarkStrategy:
        """Take event time from a column: whole milliseconds, timestamps or dates. The fast way."""
        self.extractor = TimestampExtractor.of_column(name)
        return self

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy:
        """Do not wait for a split that is silent for longer than this."""
        timeout = to_millis(idle_timeout)
        if timeout <= 0:
            raise ConfigError(f"the idle timeout must be greater than zero, it is {timeout} ms")
        strategy = copy(self)
        strategy.idle_timeout_ms = timeout
        return strategy

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,
    ) -> WatermarkStrategy:
        """Hold fast sources of the group back, so that state does not pile up behind slow ones."""
        update = 1000 if update_interval is None else to_millis(update_interval)
        strategy = copy(self)
        strategy.alignment = AlignmentSettings(
            watermark_group, to_millis(max_allowed_watermark_drift), update
        )
        return strategy
