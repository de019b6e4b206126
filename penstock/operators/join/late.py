"""Late records of two inputs: each side has its own side output, or a share in the counter."""

from __future__ import annotations

from typing import Any

from penstock.core.batch import Batch
from penstock.core.metrics import LATE_COUNTER
from penstock.operators.operator import OperatorContext

LateTags = tuple[str | None, str | None]


class LateRecords:
    """Gathers late records of one call; ``flush`` sends them on."""

    def __init__(self, ctx: OperatorContext, tags: LateTags) -> None:
        self._out = ctx.out
        self._tags = tags
        self._dropped = ctx.metrics.counter(LATE_COUNTER)
        self._gathered: tuple[list[tuple[Any, int]], list[tuple[Any, int]]] = ([], [])

    def add(self, side: int, value: Any, time: int) -> None:
        """A record of one side is late."""
        if self._tags[side] is None:
            self._dropped.inc()
        else:
            self._gathered[side].append((value, time))

    def send(self, side: int, batch: Batch) -> None:
        """A whole batch of one side is late."""
        tag = self._tags[side]
        if tag is None:
            self._dropped.inc(len(batch))
        else:
            self._out.side(tag, batch)

    def flush(self) -> None:
        """Send what was gathered."""
        for side, gathered in enumerate(self._gathered):
            if gathered:
                values, times = zip(*gathered, strict=True)
                gathered.clear()
                self.send(side, Batch.of_rows(list(values), list(times)))
