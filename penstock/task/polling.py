"""How a task reads its source: one poll at a time, and rarer while there is nothing."""

from __future__ import annotations

from penstock.operators.chain import OperatorInput
from penstock.operators.source_operator import SourceOperator

_LONGEST_MS = 16


class SourcePolls:
    """Polls a source, and knows when it makes sense to do so again."""

    def __init__(self, head: OperatorInput, source: SourceOperator) -> None:
        self._head = head
        self.source = source
        self._pause_ms = 1
        self._retry_at: int | None = None

    def due(self, now_ms: int) -> bool:
        """Whether it makes sense to poll now."""
        return self._retry_at is None or now_ms >= self._retry_at

    def now(self) -> None:
        """Something has changed: look again."""
        self._retry_at = None

    def next_deadline_ms(self) -> int | None:
        """Processing time before which it is not polled; ``None`` if it may be at once."""
        return self._retry_at

    def poll(self, most: int, now_ms: int) -> int:
        """Emit the next records, ``most`` at most; how many there were."""
        emitted = 0

        def poll() -> None:
            nonlocal emitted
            emitted = self.source.poll(most)

        self._head.run(poll)
        if emitted:
            self._pause_ms, self._retry_at = 1, None
        elif not self.source.finished:
            wanted = self.source.next_poll_ms()
            self._retry_at = now_ms + self._pause_ms if wanted is None else max(wanted, now_ms + 1)
            self._pause_ms = min(2 * self._pause_ms, _LONGEST_MS)
        return emitted
