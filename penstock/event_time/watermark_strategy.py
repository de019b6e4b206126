"""What users say about event time: the :class:`WatermarkStrategy`.

A strategy says how timestamps are found, how watermarks follow from them, when a silent split counts
as idle, and how far sources may run ahead of each other.  :mod:`~penstock.event_time.watermark_tracker` runs
it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.event_time.timestamp_assigners import Extract, TimestampAssigner, TimestampExtractor
from penstock.event_time.watermark_generators import (
    BoundedOutOfOrderness,
    LearnedLateness,
    NoWatermarks,
    WatermarkGenerator,
)


@dataclass(frozen=True, slots=True)
class AlignmentSettings:
    """Sources of one ``group`` do not run ahead of its slowest by more than ``max_drift_ms``."""

    group: str
    max_drift_ms: int
    update_ms: int = 1000


class WatermarkStrategy:
    """How event time is found in a stream: timestamps of records, and watermarks that follow from them.

    A watermark says that no earlier record is expected: windows that end before it emit, timers up to it
    fire.  The strategy works for each split of a source; its functions run in the slots.

    >>> by_second_field = WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_assigner(
    ...     lambda record, _: record[1]  # milliseconds since 1970
    ... )
    >>> timed = env.from_collection([("a", 7), ("b", 3)]).assign_timestamps_and_watermarks(by_second_field)
    >>> class TimeOf(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value[0], ctx.timestamp()
    >>> list(timed.process(TimeOf()).execute_and_collect())
    [('a', 7), ('b', 3)]

    The ``with_`` methods may come in any order.  As in PyFlink, ``with_timestamp_assigner`` changes this
    strategy and returns it, while ``with_idleness``, ``with_watermark_alignment`` and ``with_max_ahead``
    return a new one; unlike in PyFlink, the new one keeps the assigner.
    """

    def __init__(self, generator: Callable[[], WatermarkGenerator]) -> None:
        self.create_generator = generator
        self.extractor: TimestampExtractor | None = None
        """``None`` keeps the timestamps the source gave."""
        self.idle_timeout_ms: int | None = None
        self.alignment: AlignmentSettings | None = None
        self.max_ahead_ms: int | None = None

    @property
    def makes_watermarks(self) -> bool:
        """Whether event time ever advances by this strategy before the input ends."""
        return self.create_generator is not NoWatermarks

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
    def for_learned_lateness(
        target_late_ratio: float = 0.001, initial_bound: DurationLike = 10_000
    ) -> WatermarkStrategy:
        """Keep the bound, for each split, as small as lets this share of its records come too late.

        Until ``1 / target_late_ratio`` records of a split were seen the bound is ``initial_bound``, or
        more.  What was learned is part of snapshots.
        """
        bound = to_millis(initial_bound)
        LearnedLateness(target_late_ratio, bound)
        return WatermarkStrategy(partial(LearnedLateness, target_late_ratio, bound))

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

    def with_max_ahead(self, max_ahead: DurationLike) -> WatermarkStrategy:
        """Do not let a single record push the watermark further than this: its clock may be wrong.

        A record whose timestamp is further ahead of its split is passed on as it is, but leaves the
        watermark alone and is counted as ``numRecordsAhead``.  See
        :class:`~penstock.event_time.future_timestamps.AheadGuard` for the exact rule.
        """
        ahead = to_millis(max_ahead)
        if ahead <= 0:
            raise ConfigError(f"how far a record may be ahead must be greater than zero, it is {ahead} ms")
        strategy = copy(self)
        strategy.max_ahead_ms = ahead
        return strategy

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,
    ) -> WatermarkStrategy:
        """Hold fast sources of the group back, so that state does not pile up behind slow ones.

        Splits whose watermark is more than the drift ahead of the slowest source of the group are not
        read until it has come closer.  All sources of a job that name the same group are in it.
        """
        drift = to_millis(max_allowed_watermark_drift)
        update = 1000 if update_interval is None else to_millis(update_interval)
        if drift < 0 or update <= 0:
            raise ConfigError(
                f"watermark alignment needs a drift of at least zero and an update interval greater than "
                f"zero; they are {drift} ms and {update} ms"
            )
        strategy = copy(self)
        strategy.alignment = AlignmentSettings(watermark_group, drift, update)
        return strategy
