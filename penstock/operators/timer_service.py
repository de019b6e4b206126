"""Time as functions see it: the two time domains and the service that registers timers.

Event-time timers fire when the watermark reaches them, processing-time timers at least one
millisecond after the wall clock does.  A timer is identified by (time, key): registering it twice
fires it once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

from penstock.core.clock import Clock
from penstock.core.durations import timer_time
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.state.keyed import KeyedState


class TimeDomain(Enum):
    """Which clock a timer follows.

    >>> [domain.name for domain in TimeDomain]
    ['EVENT_TIME', 'PROCESSING_TIME']
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Reads both clocks and manages the timers of the current key: ``ctx.timer_service()``.

    A timer belongs to a key and a time: registering it twice fires it once.  Timers are part of snapshots;
    one of processing time that fell due while the job was down fires when it is up again.

    >>> class Later(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(value + 10)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield timestamp
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    >>> keyed = env.from_collection([1, 2]).assign_timestamps_and_watermarks(by_time).key_by(lambda v: "all")
    >>> list(keyed.process(Later()).execute_and_collect())
    [11, 12]
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall-clock time, in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The operator's event time; ``MIN_TIME`` before the first watermark, also after a restore."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Ask for ``on_timer`` when the wall clock has passed ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Ask for ``on_timer`` when the watermark has reached ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take back a processing-time timer; a missing one is fine."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take back an event-time timer; a missing one is fine."""


class UnkeyedTimerService(TimerService):
    """Clocks only: without a key there is nothing a timer could belong to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.watermark: EventTime = MIN_TIME

    def current_processing_time(self) -> int:
        return self._clock.now_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def _refuse(self, timestamp: int) -> None:
        raise GraphError(
            "timers belong to a key, and this step is not keyed; put a key_by in front of it and use "
            "a keyed process function",
            code=Code.NOT_KEYED,
        )

    register_processing_time_timer = register_event_time_timer = _refuse
    delete_processing_time_timer = delete_event_time_timer = _refuse


class KeyedTimerService(UnkeyedTimerService):
    """Timers of the key that the state's scope points at."""

    def __init__(self, clock: Clock, keyed: KeyedState) -> None:
        super().__init__(clock)
        self._keyed = keyed
        self._scope = keyed.scope

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._keyed.timers.processing.register(timer_time(timestamp), self._scope.key, None)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._keyed.timers.event.register(timer_time(timestamp), self._scope.key, None)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._keyed.timers.processing.delete(timer_time(timestamp), self._scope.key, None)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._keyed.timers.event.delete(timer_time(timestamp), self._scope.key, None)
