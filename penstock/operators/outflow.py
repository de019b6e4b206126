"""How results leave a step that may make any number of them of one record or one timer.

They leave in pieces, and between two pieces the step may be told to wait (``Operator.work``).  How many
results a piece has is learned: from their own size, and from how much the steps behind make of them before
they leave the task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from penstock.core.batch import Batch, Times
from penstock.core.errors import TypeMismatchError
from penstock.core.sizing import sampled_bytes
from penstock.operators.operator import OperatorContext

MOST_ROWS = 8192
_FIRST_ROWS = 256
_GROWTH = 4
LISTS = frozenset((list, tuple))
"""Results that are there already; all others are asked for as they are sent."""

Emit = Callable[[list[Any], Times | None], None]
"""Sends results with their times, if they have any."""


class Outflow:
    """Cuts results into pieces of ``rows``."""

    __slots__ = ("_ctx", "_emit", "rows")

    def __init__(self, ctx: OperatorContext, emit: Emit) -> None:
        self._ctx = ctx
        self._emit = emit
        self.rows = _FIRST_ROWS

    def begin(self, items: list[Any], results: Iterable[Any]) -> Iterator[Any]:
        """Add results to ``items``, of those that are made on demand only a piece; the rest of them."""
        if type(results) in LISTS:
            items.extend(results)
            return iter(())
        rest = as_results(results)
        items.extend(islice(rest, self.rows))
        return rest

    def pour(self, items: list[Any], times: Times | None, rest: Iterator[Any], time: int) -> Iterator[None]:
        """Send ``items``, then the ``rest``, all of it at ``time``, a piece at each step."""
        start = 0
        while start < len(items):
            stop = start + self.rows
            self._send(items[start:stop], None if times is None else times[start:stop])
            start = stop
            yield
        while piece := list(islice(rest, self.rows)):
            self._send(piece, None if times is None else np.full(len(piece), time, np.int64))
            yield

    def pour_all(
        self, results: Iterator[Iterable[Any]], items: list[Any], ends: list[int], times: Times | None
    ) -> Generator[None, None, int]:
        """Send what many records result in, a piece at each step, but for what is less than a piece.

        That stays in ``items``, and is that of the records from the returned one on.  ``results`` is asked
        for the next record's when those of the last are taken; if there are times, whoever makes them notes
        in ``ends`` how many ``items`` there are then.  In between everything runs at C speed.
        """
        flat, start = chain.from_iterable(results), 0
        while True:
            most = self.rows
            try:
                items.extend(islice(flat, most))
            except TypeError as error:
                if (kind := _one_thing(error)) is None:
                    raise
                raise not_iterable(kind) from None
            if len(items) < most:
                return start
            # The record that it is at may have more results: those so far are its share of this piece.
            self._send(items.copy(), spread_times(times, [*ends[start:], most], start))
            items.clear()
            start = len(ends)
            yield

    def _send(self, items: list[Any], times: Times | None) -> None:
        ctx = self._ctx
        before = ctx.emitted_bytes()
        self._emit(items, times)
        size = max(sampled_bytes(items), ctx.emitted_bytes() - before, 1)
        self.rows = max(1, min(ctx.piece_bytes * len(items) // size, MOST_ROWS, _GROWTH * self.rows))


def as_results(made: Any) -> Iterator[Any]:
    """What a function returned, one by one."""
    try:
        return iter(made)
    except TypeError:
        raise not_iterable(type(made).__name__) from None


def not_iterable(kind: str) -> TypeMismatchError:
    """The error if a function returned one thing where it may return any number of results."""
    return TypeMismatchError(
        f"the function returned one {kind}, where any number of results is wanted: return a list of them, "
        "yield them one by one, or return None if there are none"
    )


def _one_thing(error: TypeError) -> str | None:
    """The type of what a function returned, if the loop choked on it; ``None`` if it raised itself."""
    found = re.fullmatch(r"'(.+)' object is not iterable", str(error))
    trace = error.__traceback__
    return found[1] if found and trace is not None and trace.tb_next is None else None


def spread_times(times: Times | None, ends: list[int], start: int = 0) -> Times | None:
    """The time of each result, given how many there were after each record, from record ``start`` on."""
    if times is None:
        return None
    if start or len(ends) < len(times):
        times = times[start : start + len(ends)]
    if ends == list(range(1, len(ends) + 1)):
        return times
    return np.repeat(times, np.diff(ends, prepend=0))


def pieces(batch: Batch, ctx: OperatorContext) -> Iterator[Batch]:
    """A batch cut into pieces; a small one is its own. Columns are moved as a whole, so more at once."""
    most = 4 * ctx.piece_bytes if batch.is_columnar else ctx.piece_bytes
    rows = max(1, most * len(batch) // max(1, batch.about_bytes()))
    if rows >= len(batch):
        yield batch
        return
    for start in range(0, len(batch), rows):
        yield batch.slice(start, min(start + rows, len(batch)))
