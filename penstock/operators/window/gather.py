"""Results and late elements of one call of the operator, sent on as one batch each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.metrics import Counter
from penstock.operators.operator import Output
from penstock.operators.output_tag import emit_results


class Gathered:
    """Collects what windows emit; ``flush`` at the end of each call of the operator."""

    def __init__(self, out: Output, late_tag: str | None, dropped: Counter) -> None:
        self._out = out
        self._late_tag = late_tag
        self._dropped = dropped
        self._items: list[Any] = []
        self._times: list[int] = []
        self._late: list[Any] = []
        self._late_times: list[int] = []

    def add(self, value: Any, time: int) -> None:
        """One result."""
        self._items.append(value)
        self._times.append(time)

    def add_all(self, results: Iterable[Any] | None, time: int) -> None:
        """What a window function returned."""
        if results is None:
            return
        before = len(self._items)
        self._items.extend(results)
        self._times.extend([time] * (len(self._items) - before))

    def late(self, value: Any, time: int) -> None:
        """An element that came too late: for the side output, or else only counted."""
        if self._late_tag is None:
            self._dropped.inc()
        else:
            self._late.append(value)
            self._late_times.append(time)

    def flush(self) -> None:
        """Send everything on."""
        if self._items:
            items, times = self._items, np.array(self._times, dtype=np.int64)
            self._items, self._times = [], []
            emit_results(self._out, items, times)
        if self._late:
            rows, late_times = self._late, self._late_times
            self._late, self._late_times = [], []
            assert self._late_tag is not None
            self._out.side(self._late_tag, Batch.of_rows(rows, late_times))
