"""The writer without a second phase: rows are visible at once, and written again after a crash.

Rows wait until there are enough of them, or the interval is over, or a barrier comes; then one
transaction writes them all.  After a crash the rows since the last checkpoint are written once more.  By
key, they go over themselves: the table is exact again when the replay has caught up.  Until then it may
show older values than a moment ago; ``only_if_newer`` prevents that.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.connectors.database.connection import Link
from penstock.connectors.database.dialect import Fault
from penstock.connectors.database.rows import Changed
from penstock.connectors.database.write_target import WriteTarget, refused
from penstock.connectors.sink import SinkWriter
from penstock.core.batch import Batch
from penstock.core.clock import Clock


class Waiting(Protocol):
    """Rows that wait to be written."""

    def __len__(self) -> int: ...

    def add(self, batch: Batch) -> None:
        """Take a batch."""

    def take(self) -> Changed:
        """Hand everything out."""
        ...


class EagerWriter(SinkWriter):
    """Writes one subtask's rows. Retries what may pass, on the task's thread: the stream waits meanwhile."""

    def __init__(
        self,
        link: Link,
        destination: WriteTarget,
        changes: Waiting,
        batch_rows: int,
        interval_ms: int,
        clock: Clock,
    ) -> None:
        self._link = link
        self._destination = destination
        self._changes = changes
        self._batch_rows = batch_rows
        self._interval_ms = interval_ms
        self._clock = clock
        self._due: int | None = None

    def write(self, batch: Batch) -> None:
        self._changes.add(batch)
        if len(self._changes) >= self._batch_rows:
            self._send()
        elif self._due is None and self._interval_ms > 0 and len(self._changes):
            self._due = self._clock.now_ms() + self._interval_ms

    def flush(self, end_of_input: bool) -> None:
        self._send()

    def next_flush_ms(self) -> int | None:
        return self._due

    def on_time(self, now_ms: int) -> None:
        self._send()

    def close(self) -> None:
        self._link.close()

    def _send(self) -> None:
        self._due = None
        changed = self._changes.take()
        if not len(changed):
            return
        try:
            self._link.run(
                lambda c: self._in_transaction(c, changed), f"writing to {self._destination.where}"
            )
        except Exception as e:
            if self._link.dialect.fault(e) is not Fault.DATA:
                raise
            raise refused(self._destination, changed, e) from e

    def _in_transaction(self, connection: Any, changed: Changed) -> None:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            self._destination.apply(connection, changed)
            cursor.execute("COMMIT")
