"""The same work for many things, some of them at once: for work that waits for disks and networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def each(work: Callable[[T], object], items: Sequence[T], at_once: int) -> None:
    """Do ``work`` for every item, ``at_once`` of them side by side.

    An error of one is raised when nothing is under way any more; what had not begun by then is left out.
    """
    if at_once < 2 or len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(at_once, "penstock-at-once") as pool:
        begun = [pool.submit(work, item) for item in items]
        try:
            for done in begun:
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
