"""The iterator behind ``execute_and_collect``."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from penstock.common.job_client import JobClient

_POLL_S = 0.05


class CloseableIterator:
    """Records of a running job, as they come. Close it (or use ``with``) to cancel the job."""

    def __init__(self, records: SimpleQueue[Any], client: JobClient) -> None:
        self._records = records
        self._client = client
        self._result = client.get_job_execution_result()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            over = self._result.done()
            try:
                return self._records.get(timeout=0 if over else _POLL_S)
            except Empty:
                if over:
                    self._result.result()
                    raise StopIteration from None

    def next(self) -> Any:
        """The next record."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job if it still runs."""
        if not self._result.done():
            self._client.cancel().result()

    def __enter__(self) -> CloseableIterator:
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
