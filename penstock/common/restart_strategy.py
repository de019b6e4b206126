"""PyFlink's ``common.restart_strategy``: what to do when a job fails.

A strategy is turned into settings (:meth:`RestartStrategyConfiguration.settings`); the settings are
what the engine reads, with :func:`penstock.core.restart.restart_from_config`.
"""

from __future__ import annotations

import datetime as dt

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.durations import DurationLike, to_millis
from penstock.core.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartPolicy,
    restart_from_config,
)

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration:
    """What to do when a job fails; made by ``RestartStrategies``. ``policy`` is ``None`` for the settings'.

    >>> RestartStrategies.fixed_delay_restart(3, "1 s").get_description()
    'Restart with fixed delay (1000 ms). #3 restart attempts.'
    """

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        self.policy = policy

    def settings(self) -> dict[str, str]:
        """The entries of a ``Configuration`` that ask for this strategy."""
        match self.policy:
            case None:
                return {}
            case NoRestart():
                return {options.RESTART_TYPE.key: "none"}
            case FixedDelay(attempts, delay):
                return {
                    options.RESTART_TYPE.key: "fixed-delay",
                    options.FIXED_ATTEMPTS.key: str(attempts),
                    options.FIXED_DELAY.key: f"{delay} ms",
                }
            case FailureRate(failures, interval, delay):
                return {
                    options.RESTART_TYPE.key: "failure-rate",
                    options.RATE_MAX_FAILURES.key: str(failures),
                    options.RATE_INTERVAL.key: f"{interval} ms",
                    options.RATE_DELAY.key: f"{delay} ms",
                }
            case ExponentialDelay() as exponential:
                return _exponential_settings(exponential)

    def get_description(self) -> str:
        """What the strategy does, in words."""
        match self.policy:
            case None:
                return "Cluster level default restart strategy"
            case NoRestart():
                return "Restart deactivated."
            case FixedDelay(attempts, delay):
                return f"Restart with fixed delay ({delay} ms). #{attempts} restart attempts."
            case FailureRate(failures, interval, delay):
                return f"Failure rate restart with maximum of {failures} failures within {interval} ms and fixed delay {delay} ms."  # noqa: E501
            case ExponentialDelay() as e:
                return f"Restart with exponential delay (from {e.initial_ms} ms up to {e.max_ms} ms)."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RestartStrategyConfiguration) and self.policy == other.policy

    def __hash__(self) -> int:
        return hash(self.policy)

    def __repr__(self) -> str:
        return f"RestartStrategyConfiguration({self.policy!r})"


def _exponential_settings(policy: ExponentialDelay) -> dict[str, str]:
    settings = {
        options.RESTART_TYPE.key: "exponential-delay",
        options.EXPONENTIAL_INITIAL.key: f"{policy.initial_ms} ms",
        options.EXPONENTIAL_MAX.key: f"{policy.max_ms} ms",
        options.EXPONENTIAL_MULTIPLIER.key: str(policy.multiplier),
        options.EXPONENTIAL_RESET.key: f"{policy.reset_ms} ms",
        options.EXPONENTIAL_JITTER.key: str(policy.jitter),
    }
    if policy.attempts is not None:
        settings[options.EXPONENTIAL_ATTEMPTS.key] = str(policy.attempts)
    return settings


def _delta(millis: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=millis)


class RestartStrategies:
    """Makes restart strategies. Lengths of time: milliseconds, ``timedelta``, ``Duration`` or text.

    >>> env.set_restart_strategy(RestartStrategies.no_restart()).get_restart_strategy().get_description()
    'Restart deactivated.'
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure ends the job."""

        def __init__(self) -> None:
            super().__init__(NoRestart())

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many restarts, each after the same pause."""

        policy: FixedDelay

        def __init__(
            self, restart_attempts: int = 1, delay_between_attempts_interval: DurationLike = 1000
        ) -> None:
            super().__init__(FixedDelay(restart_attempts, to_millis(delay_between_attempts_interval)))

        def get_restart_attempts(self) -> int:
            """Restarts before giving up."""
            return self.policy.attempts

        def get_delay_between_attempts_interval(self) -> dt.timedelta:
            """The pause."""
            return _delta(self.policy.delay_ms)

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts unless failures come too often."""

        policy: FailureRate

        def __init__(
            self,
            max_failure_rate: int = 1,
            failure_interval: DurationLike = 60_000,
            delay_between_attempts_interval: DurationLike = 1000,
        ) -> None:
            interval, delay = to_millis(failure_interval), to_millis(delay_between_attempts_interval)
            super().__init__(FailureRate(max_failure_rate, interval, delay))

        def get_max_failure_rate(self) -> int:
            """Failures allowed per interval."""
            return self.policy.max_failures

        def get_failure_interval(self) -> dt.timedelta:
            """The interval."""
            return _delta(self.policy.interval_ms)

        def get_delay_between_attempts_interval(self) -> dt.timedelta:
            """The pause before each restart."""
            return _delta(self.policy.delay_ms)

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Whatever the settings say."""

        def __init__(self) -> None:
            super().__init__(None)

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure ends the job."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Whatever the settings say."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> FixedDelayRestartStrategyConfiguration:
        """So many restarts, each after the same pause."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> FailureRateRestartStrategyConfiguration:
        """Restarts unless more than ``failure_rate`` failures fall into one interval."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: DurationLike,
        max_backoff: DurationLike,
        backoff_multiplier: float,
        reset_backoff_threshold: DurationLike,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Restarts after a pause that grows with each failure and starts over after a quiet time."""
        return RestartStrategyConfiguration(
            ExponentialDelay(
                to_millis(initial_backoff),
                to_millis(max_backoff),
                backoff_multiplier,
                to_millis(reset_backoff_threshold),
                jitter_factor,
            )
        )

    @staticmethod
    def from_configuration(configuration: Configuration) -> RestartStrategyConfiguration:
        """The strategy that settings ask for; the fallback if they ask for none."""
        if not configuration.has(options.RESTART_TYPE):
            return RestartStrategies.fall_back_restart()
        match restart_from_config(configuration, checkpointing_enabled=False):
            case NoRestart():
                return RestartStrategies.no_restart()
            case FixedDelay(attempts, delay):
                return RestartStrategies.fixed_delay_restart(attempts, delay)
            case FailureRate(failures, interval, delay):
                return RestartStrategies.failure_rate_restart(failures, interval, delay)
            case exponential:
                return RestartStrategyConfiguration(exponential)
