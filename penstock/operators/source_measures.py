"""What a source subtask shows of itself: how far behind it is, and for how long it has had nothing to do.

Records are emitted as they are fetched, a batch at a time, so Flink's two lags, at fetching and at emitting,
are one here: that of the last record of the last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.connectors.source import SplitReader
from penstock.core.batch import Batch
from penstock.core.ids import MIN_TIME
from penstock.core.metrics import PENDING_GAUGE
from penstock.operators.operator import OperatorContext
from penstock.operators.source_splits import AssignedSplit


class SourceMeasures:
    """Of one subtask. ``reading``: its splits that are being read; ``waiting``: how many wait."""

    def __init__(
        self, ctx: OperatorContext, reading: Iterable[AssignedSplit], waiting: Callable[[], int]
    ) -> None:
        self._group = ctx.metrics
        self._reading = reading
        self._now = ctx.clock.now_ms
        self._busy_ms: int = self._now()
        self._lag: int | None = None
        for name, gauge in (
            (PENDING_GAUGE, self._pending),
            ("pendingSplits", waiting),
            ("sourceIdleTime", lambda: max(0, self._now() - self._busy_ms)),
            ("currentFetchEventTimeLag", lambda: self._lag),
            ("currentEmitEventTimeLag", lambda: self._lag),
        ):
            ctx.metrics.gauge(name, gauge)

    def emitted(self, batch: Batch, now_ms: int) -> None:
        """A batch, not empty, has its times and is sent on."""
        self._busy_ms = now_ms
        if batch.times is not None:
            last = int(batch.times[-1])
            if last > MIN_TIME:
                self._lag = now_ms - last

    def opened(self, split_id: str, reader: SplitReader) -> None:
        """A split begins to be read."""
        reader.show(self._group.part(split_id))

    def ended(self, split_id: str) -> None:
        """It is read: nothing of it is shown any more."""
        self._group.drop_part(split_id)

    def _pending(self) -> int | None:
        """Over the splits that can tell; nothing if none can."""
        counts = [assigned.reader.pending() for assigned in self._reading if assigned.reader is not None]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None
