"""``AsyncDataStream``: streams through a function that waits for other systems."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.common.time import Time
from penstock.core.durations import DurationLike
from penstock.core.errors import ConfigError
from penstock.core.type_vars import R, S
from penstock.core.typeinfo import DeclaredType, TypeInformation
from penstock.datastream import async_retry_strategies
from penstock.datastream._stream import DataStream
from penstock.operators.async_io.functions import AsyncFunction, AsyncFunctionDescriptor, AsyncRetryStrategy
from penstock.operators.async_io.operator import AsyncWaitOperator

__all__ = ["AsyncDataStream", "DataStream"]
__all__ += ["AsyncFunction", "AsyncFunctionDescriptor", "AsyncRetryStrategy"]  # PyFlink has them here, too
__all__ += ["Time", "TypeInformation", "async_retry_strategies"]

_ORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED
_UNORDERED = AsyncFunctionDescriptor.OutputMode.UNORDERED


class AsyncDataStream:
    """Asks another system about each record of a stream, with up to ``capacity`` requests at once.

    ``timeout`` bounds the time from a record's first attempt to its answer, retries included; 0 means no
    bound.  When ``capacity`` requests are under way, the stream waits.

    >>> class Capital(AsyncFunction[str, str]):
    ...     async def async_invoke(self, value: str) -> list[str]:
    ...         await asyncio.sleep(0)  # ask somebody
    ...         return [{"fr": "Paris"}.get(value, "?")]
    >>> asked = AsyncDataStream.ordered_wait(env.from_collection(["fr", "xx"]), Capital(), Time.seconds(5))
    >>> list(asked.execute_and_collect())
    ['Paris', '?']
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: DurationLike,
        capacity: int = 100,
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Results as they arrive; only watermarks keep their place among them."""
        return _wait(data_stream, async_function, timeout, None, capacity, output_type, _UNORDERED)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Results as they arrive; requests are repeated as the strategy says."""
        retry = async_retry_strategy
        return _wait(data_stream, async_function, timeout, retry, capacity, output_type, _UNORDERED)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: DurationLike,
        capacity: int = 100,
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Results in the order of the records; a slow answer holds up those behind it."""
        return _wait(data_stream, async_function, timeout, None, capacity, output_type, _ORDERED)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: AsyncFunction[S, R],
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Results in the order of the records; requests are repeated as the strategy says."""
        retry = async_retry_strategy
        return _wait(data_stream, async_function, timeout, retry, capacity, output_type, _ORDERED)


def _wait(
    stream: DataStream[Any],
    function: AsyncFunction[Any, Any],
    timeout: DurationLike,
    retry: AsyncRetryStrategy[Any] | None,
    capacity: int,
    output_type: DeclaredType,
    mode: AsyncFunctionDescriptor.OutputMode,
) -> DataStream[Any]:
    if retry is not None and not timeout:
        raise ConfigError("requests that are repeated need a timeout above 0, which ends the repeating")
    retry = retry or AsyncRetryStrategy.no_restart()
    descriptor = AsyncFunctionDescriptor(function, timeout, capacity, retry, mode)
    name = f"Async Wait ({mode.name.lower()})"
    return stream._add(name, partial(AsyncWaitOperator, descriptor), stateful=True, output_type=output_type)
