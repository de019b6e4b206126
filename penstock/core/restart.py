"""What to do when the job fails: four answers, as plain data.

The coordinator's restart loop interprets them; here is only what they are and how settings choose one.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core import options
from penstock.core.config import Configuration


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure ends the job."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """Restart up to ``attempts`` times, ``delay_ms`` after each failure."""

    attempts: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restart ``delay_ms`` after each failure; give up at more than ``max_failures`` per interval."""

    max_failures: int
    interval_ms: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Restart after a pause that grows with each failure and starts over after a quiet time."""

    initial_ms: int
    max_ms: int
    multiplier: float
    reset_ms: int
    jitter: float
    """Each pause is changed by up to this share of itself, up or down, at random."""
    attempts: int | None = None
    """Failures without a quiet time between before giving up; ``None`` never gives up."""


RestartPolicy = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def longest_pause_ms(policy: RestartPolicy) -> int:
    """The longest that the job may wait before it starts again."""
    match policy:
        case NoRestart():
            return 0
        case ExponentialDelay():
            return int(policy.max_ms * (1 + policy.jitter))
        case _:
            return policy.delay_ms


def restart_from_config(config: Configuration, checkpointing_enabled: bool) -> RestartPolicy:
    """The policy the settings ask for; by default exponential delay with snapshots on, else none."""
    chosen = config.get(options.RESTART_TYPE)
    if chosen is None:
        return _exponential(config) if checkpointing_enabled else NoRestart()
    match chosen.replace("-", ""):
        case "fixeddelay":
            return FixedDelay(config.get(options.FIXED_ATTEMPTS), config.get(options.FIXED_DELAY))
        case "failurerate":
            return FailureRate(
                config.get(options.RATE_MAX_FAILURES),
                config.get(options.RATE_INTERVAL),
                config.get(options.RATE_DELAY),
            )
        case "exponentialdelay":
            return _exponential(config)
        case _:
            return NoRestart()


def _exponential(config: Configuration) -> ExponentialDelay:
    return ExponentialDelay(
        config.get(options.EXPONENTIAL_INITIAL),
        config.get(options.EXPONENTIAL_MAX),
        config.get(options.EXPONENTIAL_MULTIPLIER),
        config.get(options.EXPONENTIAL_RESET),
        config.get(options.EXPONENTIAL_JITTER),
        config.get(options.EXPONENTIAL_ATTEMPTS),
    )
