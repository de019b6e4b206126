"""Whether and when to start the job again after a failure.  Pure; randomness is handed in."""

from __future__ import annotations

import random
from collections import deque

from penstock.core.errors import (
    CorruptSnapshotError,
    FormatVersionError,
    PositionGoneError,
    SnapshotError,
    SparkLostError,
)
from penstock.core.ids import MonoMs
from penstock.core.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartPolicy,
)

_FOR_GOOD = (FormatVersionError, PositionGoneError, SparkLostError)


def may_pass(error: Exception) -> bool:
    """Whether a claim that failed so may succeed later: the storage was just out of reach."""
    return isinstance(error, SnapshotError) and not isinstance(
        error, CorruptSnapshotError | FormatVersionError
    )


class RestartCounter:
    """Counts failures against a strategy."""

    def __init__(self, strategy: RestartPolicy, rng: random.Random) -> None:
        self._strategy = strategy
        self._rng = rng
        self._attempts = 0
        self._times: deque[MonoMs] = deque()
        self._backoff: float | None = None
        self._last_ms: MonoMs | None = None

    def delay_after(self, error: Exception, now: MonoMs) -> int | None:
        """:meth:`next_delay`, unless starting again cannot help."""
        return None if isinstance(error, _FOR_GOOD) else self.next_delay(now)

    def next_delay(self, now: MonoMs) -> int | None:
        """A failure happened at ``now``: milliseconds to wait before restarting, or give up."""
        strategy = self._strategy
        if isinstance(strategy, NoRestart):
            return None
        if isinstance(strategy, FixedDelay):
            self._attempts += 1
            return strategy.delay_ms if self._attempts <= strategy.attempts else None
        if isinstance(strategy, FailureRate):
            return self._rate(strategy, now)
        return self._exponential(strategy, now)

    def _rate(self, strategy: FailureRate, now: MonoMs) -> int | None:
        self._times.append(now)
        while self._times and self._times[0] <= now - strategy.interval_ms:
            self._times.popleft()
        return strategy.delay_ms if len(self._times) <= strategy.max_failures else None

    def _exponential(self, strategy: ExponentialDelay, now: MonoMs) -> int | None:
        quiet = None if self._last_ms is None else now - self._last_ms
        if self._backoff is None or (quiet is not None and quiet >= strategy.reset_ms + self._backoff):
            self._backoff = float(strategy.initial_ms)
            self._attempts = 0
        else:
            self._backoff = min(self._backoff * strategy.multiplier, float(strategy.max_ms))
        self._last_ms = now
        self._attempts += 1
        if strategy.attempts is not None and self._attempts > strategy.attempts:
            return None
        jitter = self._backoff * strategy.jitter
        return max(0, int(self._backoff + self._rng.uniform(-jitter, jitter)))
