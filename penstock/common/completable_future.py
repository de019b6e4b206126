"""PyFlink's ``common.completable_future``: a result that is not there yet."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")
_AWAKE_S = 0.5
"""A signal that comes right before the main thread sleeps is heard when it wakes up; so it does, often."""


class CompletableFuture(Generic[T]):
    """A result that is not there yet: a ``concurrent.futures.Future`` with PyFlink's method names.

    Safe to use from any thread.

    >>> future = CompletableFuture.completed("/savepoints/savepoint-1")
    >>> future.done(), future.result(timeout=60)
    (True, '/savepoints/savepoint-1')
    """

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """A future that is done already."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Always false for what a job does, which has begun by then; it does not cancel the job."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether ``cancel`` succeeded."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether the result or an error is there."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result (at most ``timeout`` seconds) and return it, or raise the error."""
        while timeout is None and not wait([self._future], _AWAKE_S).done:
            pass
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return the error, ``None`` if there was none."""
        return self._future.exception(timeout)
