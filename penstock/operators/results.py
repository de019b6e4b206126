"""What an operator gathers of many calls of user code, each result with its time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from penstock.core.batch import Times
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Outflow
from penstock.operators.output_tag import emit_results


class Results:
    """Results until the next ``flush``, which sends them on as one batch, or in pieces if they are many.

    What one call returns is sent on while it is made, however much it is.  Between two calls the operator
    looks whether enough ``is_full``, flushes, and may be suspended.
    """

    def __init__(self, ctx: OperatorContext) -> None:
        self._send = partial(emit_results, ctx.out)
        self._outflow = Outflow(ctx, self._send)
        self._items: list[Any] = []
        self._times: list[int] = []

    def add(self, value: Any, time: int) -> None:
        """One result."""
        self._items.append(value)
        self._times.append(time)

    def add_all(self, results: Iterable[Any] | None, time: int) -> None:
        """What a function returned."""
        if results is None:
            return
        before = len(self._items)
        rest = self._outflow.begin(self._items, results)
        self._times.extend([time] * (len(self._items) - before))
        if self.is_full:
            items, times = self._take()
            for _ in self._outflow.pour(items, times, rest, time):
                pass

    @property
    def is_full(self) -> bool:
        """Whether enough is gathered to be sent on."""
        return len(self._items) >= self._outflow.rows

    def flush(self) -> None:
        """Send everything on."""
        if self.is_full:
            items, times = self._take()
            for _ in self._outflow.pour(items, times, iter(()), 0):
                pass
        elif self._items:
            self._send(*self._take())

    def _take(self) -> tuple[list[Any], Times]:
        items, times = self._items, np.array(self._times, dtype=np.int64)
        self._items, self._times = [], []
        return items, times
