"""The iterator behind ``execute_and_collect``."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Generic, Self

from penstock.common.job_client import JobClient
from penstock.core.type_vars import T

_POLL_S = 0.05


class CloseableIterator(Generic[T]):
    """Records of a running job, as they come; from ``execute_and_collect``. For one thread.

    It ends when the job ends, with the job's error if it failed.  Close it, or use ``with``, to cancel a job
    that is not read to its end.

    >>> with env.from_collection([1, 2, 3]).execute_and_collect() as records:
    ...     next(records)
    1
    """

    def __init__(self, records: SimpleQueue[T], client: JobClient) -> None:
        self._records = records
        self._client = client
        self._result = client.get_job_execution_result()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            over = self._result.done()
            try:
                return self._records.get(timeout=0 if over else _POLL_S)
            except Empty:
                if over:
                    self._result.result()
                    raise StopIteration from None

    def next(self) -> T:
        """The next record; waits for it. ``StopIteration`` at the end of the job."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job if it still runs."""
        if not self._result.done():
            self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """An interrupted job can be gone on with; one that is left otherwise is cancelled."""
        left = exc_type is not None and not issubclass(exc_type, Exception)
        if left and not self._result.done():
            self._client.handle.interrupt().result()
        self.close()
