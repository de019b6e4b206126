"""What users write for asynchronous I/O, and how it is to be run."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Any, Generic

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.type_vars import IN, OUT
from penstock.operators.async_io.retry import AsyncRetryStrategy
from penstock.operators.functions import Function


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
