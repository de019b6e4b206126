"""Whether reading a batch's entries ahead is worth it. Pure.

Not every state is asked for at every record, and often all that is asked for is in the cache.  So now and
then a batch is not read ahead, and the rows that its records then look for one by one say how it goes on.
"""

from __future__ import annotations

FEWEST = 8
"""Entries below which a batch is not worth the calls."""
_TRIAL = 16
"""One batch in so many is not read ahead."""
_WORTH = 8
"""Reading ahead pays if one in so many entries of a batch had to be looked for."""


class Forecast:
    """The decision for one table."""

    __slots__ = ("_asked", "_batches", "_pays")

    def __init__(self) -> None:
        self._batches = 0
        self._pays = False
        self._asked = 0
        """Entries of the batch before, if that was not read ahead."""

    def says(self, entries: int, reads: int) -> bool:
        """Whether to read a batch of so many ahead; ``reads`` were made one by one since the last one."""
        if entries < FEWEST:
            self._asked = 0
            return False
        if self._asked:
            self._pays = reads * _WORTH >= self._asked
        self._batches += 1
        ahead = self._pays and self._batches % _TRIAL != 0
        self._asked = 0 if ahead else entries
        return ahead
