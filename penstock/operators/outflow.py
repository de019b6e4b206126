"""How results leave a step that may make any number of them of one record or one timer.

They leave in pieces, and between two pieces the step may be told to wait (``Operator.work``).  How many
results a piece has is learned: from their own size, and from how much the steps behind make of them before
they leave the task.

Operators that call user code many times gather each result with its time; late records go to a side output,
or are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from penstock.core.batch import Batch, Times
from penstock.core.errors import TypeMismatchError
from penstock.core.metrics import LATE_COUNTER, Counter
from penstock.core.sizing import sampled_bytes
from penstock.operators.operator import OperatorContext
from penstock.operators.output_tag import emit_results

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
