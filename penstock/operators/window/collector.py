"""Results and late elements of one call of the operator."""

from __future__ import annotations

from typing import Any

from penstock.core.batch import Batch
from penstock.core.metrics import Counter
from penstock.operators.operator import OperatorContext
from penstock.operators.results import Results


class Gathered(Results):
    """Collects what windows emit; ``flush`` at the end of each call of the operator.

    What one window makes is never interrupted: its contents are cleared right behind it.
    """

    def __init__(self, ctx: OperatorContext, late_tag: str | None, dropped: Counter) -> None:
        super().__init__(ctx)
        self._out = ctx.out
        self._late_tag = late_tag
        self._dropped = dropped
        self._late: list[Any] = []
        self._late_times: list[int] = []

    def late(self, value: Any, time: int) -> None:
        """An element that came too late: for the side output, or else only counted."""
        if self._late_tag is None:
            self._dropped.inc()
        else:
            self._late.append(value)
            self._late_times.append(time)

    def flush(self) -> None:
        """Send everything on."""
        super().flush()
        if self._late:
            rows, late_times = self._late, self._late_times
            self._late, self._late_times = [], []
            assert self._late_tag is not None
            self._out.side(self._late_tag, Batch.of_rows(rows, late_times))
