"""Work that is done again when the fault may pass: the loop, and how long it pauses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from threading import Event
from typing import TypeVar

from penstock.core.clock import Clock

T = TypeVar("T")


def wait(pause_s: float) -> None:
    """Let time pass on this thread."""
    Event().wait(pause_s)


def retry(
    work: Callable[[], T],
    passes: type[Exception] | Callable[[Exception], bool],
    pauses: Iterable[float],
    again: Callable[[Exception, float], None] = lambda error, pause_s: None,
    wait: Callable[[float], object] = wait,
) -> T:
    """What ``work`` returns; it is done again, after a pause, as long as its error is one that ``passes``.

    That is one of a class, or one that a function says so of; the function is asked about every error.
    ``pauses`` are seconds.  The error is raised as it is if it does not pass, or if there are no more pauses.
    ``again`` is told of each error that is answered by a pause, to log it.
    """
    left = iter(pauses)
    while True:
        try:
            return work()
        except Exception as error:
            may_pass = isinstance(error, passes) if isinstance(passes, type) else passes(error)
            pause_s = next(left, None) if may_pass else None
            if pause_s is None:
                raise
            again(error, pause_s)
        wait(pause_s)


def doubling(first: float, longest: float, times: int | None = None) -> Iterator[float]:
    """Pauses that double from ``first`` up to ``longest``: so many, or without end."""
    for number in itertools.count() if times is None else range(times):
        yield min(first * 2 ** min(number, 64), longest)


def steadily(pause_s: float, patience_s: float, clock: Clock) -> Iterator[float]:
    """Equal pauses, until ``patience_s`` have passed from now on."""
    deadline = clock.monotonic() + patience_s
    return itertools.takewhile(lambda _: clock.monotonic() <= deadline, itertools.repeat(pause_s))
