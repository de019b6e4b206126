"""What makes watermarks out of event times: the contract, and the generators.

:mod:`~penstock.event_time.watermark_tracker` calls them.

A record's *lateness* is how far it lies behind the largest timestamp seen before it; a record that is
the latest so far has none.  :class:`LatenessSketch` keeps the distribution of the last records,
:class:`LearnedLateness` makes it the bound of its watermarks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

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


_MANTISSA_BITS = 4
"""16 buckets per power of two: a quantile is off by a sixteenth of its value at most."""
_SHIFT = 23 - _MANTISSA_BITS
_ONE = (127 << 23) >> _SHIFT
"""The bucket bits of 1 ms, as a 32-bit float."""
_BUCKETS = 1 + (48 << _MANTISSA_BITS)
_EDGES = np.concatenate(
    ([0.0, 1.0], ((np.arange(1, _BUCKETS, dtype=np.int32) + _ONE) << _SHIFT).view(np.float32))
).astype(np.float64)
"""Where each bucket begins; bucket 0 holds the records that are not late."""
_NEGLIGIBLE = 1e-6

_HALF_LIFE = 10
"""In multiples of the records among which one may be late: old enough to know the tail, young enough to
follow a drift."""
_ALLOWANCE = 50
"""Debt, in late records, that shrinks the share by a factor of e."""
_MAX_DEBT = 3 * _ALLOWANCE
_MAX_CREDIT = _ALLOWANCE

StoredSketch = tuple[float, list[int], list[float]]
"""Half-life, numbers of the buckets that hold anything, their weights."""


class LatenessSketch:
    """Weights of lateness in buckets of equal ratio; what is ``half_life`` records old counts half.

    Merging adds the weights of two sketches, so the order of merging does not matter.  Pickled, it is
    the weights that are not negligible: a few hundred bytes.
    """

    __slots__ = ("_weights", "half_life")

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self._weights: npt.NDArray[np.float64] = np.zeros(_BUCKETS)

    @property
    def weight(self) -> float:
        """How many records the sketch stands for, old ones counted less."""
        return float(self._weights.sum())

    def add(self, lateness: Times) -> None:
        """Take the lateness of records, in milliseconds and not negative, oldest first."""
        self._weights *= 0.5 ** (len(lateness) / self.half_life)
        bits = lateness.astype(np.float32).view(np.int32) >> _SHIFT
        buckets = np.clip(bits - (_ONE - 1), 0, _BUCKETS - 1)
        self._weights += np.bincount(buckets, minlength=_BUCKETS)

    def merge(self, other: LatenessSketch) -> None:
        """Count what another sketch has seen as well."""
        self._weights += other._weights

    def exceeded_by(self, share: float) -> int:
        """The lateness in milliseconds that only ``share`` of the records exceed."""
        above = np.cumsum(self._weights[::-1])
        allowed = share * above[-1]
        from_top = int(np.searchsorted(above, allowed, side="right"))
        bucket = _BUCKETS - 1 - from_top
        if bucket <= 0:
            return 0
        more = above[from_top - 1] if from_top else 0.0
        inside = (allowed - more) / self._weights[bucket]
        low, high = _EDGES[bucket], _EDGES[bucket + 1]
        return int(np.ceil(high - inside * (high - low)))

    def plain(self) -> StoredSketch:
        """The sketch in plain values: part of the snapshot format."""
        kept = np.flatnonzero(self._weights > _NEGLIGIBLE)
        return self.half_life, kept.tolist(), self._weights[kept].tolist()

    @classmethod
    def of_plain(cls, stored: StoredSketch) -> LatenessSketch:
        """The sketch that ``plain`` was asked of."""
        half_life, buckets, weights = stored
        sketch = cls(half_life)
        sketch._weights[buckets] = weights
        return sketch

    def __reduce__(self) -> tuple[Any, ...]:
        return LatenessSketch.of_plain, (self.plain(),)


class LearnedLateness(WatermarkGenerator):
    """Watermarks whose bound follows the lateness of the last records.

    Two loops.  The fast one: the bound is the lateness that only a ``share`` of the sketch exceeds, so a
    few records of a burst are enough to raise it.  The slow one: ``share`` is the target, corrected by
    the *debt*, the number of records that really came too late above those the target allows.  A
    pattern that changes faster than the sketch, or one whose lateness comes in clusters, so meets the
    target too (the idea of adaptive conformal inference, Gibbs and Candes 2021).  The debt is limited
    on both sides, so that one bad hour does not make the next day cautious, nor a calm day careless.
    """

    def __init__(self, target_late_ratio: float, initial_bound_ms: int) -> None:
        if not 0 < target_late_ratio < 0.5:
            raise ConfigError(
                f"the target late ratio must lie between 0 and 0.5, it is {target_late_ratio}; 0.001 lets "
                "one record of a thousand come too late"
            )
        if initial_bound_ms < 0:
            raise ConfigError(f"the initial bound cannot be negative, it is {initial_bound_ms} ms")
        self._target = target_late_ratio
        self._sketch = LatenessSketch(_HALF_LIFE / target_late_ratio)
        # Counts as the first late record: it decides until more than one in 1/target was seen.
        self._sketch.add(np.array([initial_bound_ms], np.int64))
        self._debt = 0.0
        self._latest: int | None = None
        self._emitted: int = MIN_TIME

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.on_batch(np.array([timestamp], np.int64))

    def on_batch(self, times: Times) -> None:
        late = int(np.count_nonzero(times <= self._emitted))
        debt = self._debt + late - self._target * len(times)
        self._debt = min(max(debt, -_MAX_CREDIT), _MAX_DEBT)
        latest = int(times[0]) if self._latest is None else self._latest
        largest = np.maximum.accumulate(np.concatenate(([latest], times)))
        self._sketch.add(largest[1:] - times)
        self._latest = int(largest[-1])

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._latest is not None:
            self._emitted = max(self._emitted, self._latest - self.bound_ms() - 1)
            output.emit_watermark(self._emitted)

    def bound_ms(self) -> int:
        """The bound now. Watermarks never go back, so a bound that grew takes effect bit by bit."""
        return self._sketch.exceeded_by(self._target * math.exp(-self._debt / _ALLOWANCE))

    def snapshot(self) -> tuple[StoredSketch, float]:
        return self._sketch.plain(), self._debt

    def restore(self, state: tuple[StoredSketch, float]) -> None:
        stored, debt = state
        self._sketch.merge(LatenessSketch.of_plain(stored))
        self._debt = min(max(self._debt + debt, -_MAX_CREDIT), _MAX_DEBT)
