"""What users write for asynchronous I/O, how it is to be run, and when a request is made again.

Retry strategies are asked for many records at once and must not keep anything between two calls: the delay
follows from the number of attempts alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.type_vars import IN, OUT
from penstock.operators.functions import Function

ResultPredicate = Callable[[list[Any]], bool]
ErrorPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes of an ``AsyncFunction`` are worth another attempt.

    >>> class Empty(AsyncRetryPredicate):
    ...     def result_predicate(self):
    ...         return lambda results: not results
    ...     def exception_predicate(self):
    ...         return lambda error: isinstance(error, OSError)
    >>> Empty().result_predicate()([])
    True
    """

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """True for results to try again; ``None``: every result is final."""

    @abstractmethod
    def exception_predicate(self) -> ErrorPredicate | None:
        """True for errors to try again; ``None``: every error is final."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often and how fast requests are made again. Attempts are counted from 1.

    >>> strategy = AsyncRetryStrategy.fixed_delay(2, 100, lambda results: not results, None)
    >>> strategy.can_retry(2), strategy.can_retry(3), strategy.get_backoff_time_millis(1)
    (True, False, 100)
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow the one with this number."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after the attempt with this number."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are worth it."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """One attempt and no more."""
        return NoRetryStrategy()

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Up to ``max_attempts`` further attempts, always after the same time."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Up to ``max_attempts`` further attempts, each after a longer time than the one before."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Two plain functions as a predicate; either may be ``None``."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ErrorPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ErrorPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """One attempt and no more."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


class _CountedRetryStrategy(AsyncRetryStrategy[OUT]):
    """So many further attempts, if a predicate says so."""

    def __init__(
        self,
        max_attempts: int,
        delay: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> None:
        if max_attempts < 1 or delay < 0:
            raise ConfigError(
                f"a retry strategy needs at least one further attempt and a delay of 0 ms or more; got "
                f"{max_attempts} attempts and {delay} ms"
            )
        self._max_attempts = max_attempts
        self._delay = delay
        self._predicate: RetryPredicate[OUT] = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class FixedDelayRetryStrategy(_CountedRetryStrategy[OUT]):
    """The same delay before every further attempt."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> None:
        super().__init__(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._delay


class ExponentialBackoffDelayRetryStrategy(_CountedRetryStrategy[OUT]):
    """Delays that grow by a factor up to a limit."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> None:
        super().__init__(max_attempts, initial_delay, result_predicate, exception_predicate)
        if multiplier < 1 or max_retry_delay < initial_delay:
            raise ConfigError(
                f"exponential backoff needs a multiplier of at least 1 and a largest delay of at least the "
                f"first one; got multiplier {multiplier}, {initial_delay} ms up to {max_retry_delay} ms"
            )
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = float(self._delay)
        for _ in range(current_attempts - 1):
            delay *= self._multiplier
            if delay >= self._max_retry_delay:
                return self._max_retry_delay
        return int(delay)


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks another system about each record, without making the next record wait for the answer.

    ``open`` and ``close`` run on the task's thread; ``async_invoke`` and ``timeout`` run on an event loop
    of their own, many at once.  What they share needs no lock, but keyed state is out of their reach, and
    a call that blocks (``requests.get``) stops all others: hand it to ``asyncio.to_thread``.

    A request that was under way when the job failed is made again: it must be harmless to repeat.

    >>> class Slow(AsyncFunction[int, int]):
    ...     async def async_invoke(self, value: int) -> list[int]:
    ...         await asyncio.sleep(0)
    ...         return [value * 10]
    >>> tens = AsyncDataStream.unordered_wait(env.from_collection([1, 2]), Slow(), "5 s")
    >>> sorted(tens.execute_and_collect())
    [10, 20]
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for ``value``: a list, possibly empty."""

    def timeout(self, value: IN) -> list[OUT]:
        """What to emit for a record whose answer did not come in time; by default the job fails."""
        raise TimeoutError(f"there was no answer in time for the record {value!r}")


class AsyncFunctionDescriptor:
    """An asynchronous function and how it is run. Times in milliseconds; a timeout of 0 means none."""

    class OutputMode(Enum):
        """Whether results keep the order of the records."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: DurationLike,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: OutputMode,
    ) -> None:
        if not isinstance(async_function, AsyncFunction):
            raise ConfigError(
                f"asynchronous I/O takes an AsyncFunction instance, not {async_function!r}; derive a class "
                "from AsyncFunction with 'async def async_invoke(self, value)' that returns a list"
            )
        if not isinstance(async_retry_strategy, AsyncRetryStrategy):
            raise ConfigError(f"expected an AsyncRetryStrategy, got {async_retry_strategy!r}")
        if capacity < 1:
            raise ConfigError(f"the capacity of asynchronous I/O must be at least 1; got {capacity}")
        self.async_function = async_function
        self.timeout = to_millis(timeout)
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
