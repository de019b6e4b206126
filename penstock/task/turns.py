"""A task's turn in its slot: when it is over, and what the rows that were taken on have cost."""

from __future__ import annotations

from penstock.operators.pacing import BUDGET_S, Pace

_FEW = 256
"""Where a turn has fewer rows than this, each of them costs more than an exchange of what it results in."""


class Turns:
    """Told when one begins, what is taken on, and when one goes on with what another has left over.

    Rows that are too much for one turn count when the operators are done with them, with all they have cost:
    else they would seem cheap.
    """

    __slots__ = ("_moved", "_pace", "_rows", "_seconds", "began")

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self.began = now
        """When the turn at hand began."""
        self._rows = 0
        """Those that the operators are not done with."""
        self._seconds, self._moved = 0.0, 0

    @property
    def rows(self) -> int:
        """How many rows to take on next."""
        return self._pace.rows

    @property
    def is_careful(self) -> bool:
        """Whether rows are costly, or nobody knows: the next one may take long, and nothing waits for it."""
        return self._pace.rows < _FEW

    def is_over(self, now: float) -> bool:
        """Whether the other tasks of the slot should have their turn, with what was made so far."""
        return self.is_careful or now - self.began > BUDGET_S

    def took(self, rows: int, seconds: float, moved: int, is_done: bool) -> None:
        """So many rows were taken on; ``is_done`` if nothing of them is left over."""
        if is_done:
            self._pace.took(rows, seconds, moved)
        else:
            self._rows, self._seconds, self._moved = rows, seconds, moved

    def went_on(self, seconds: float, moved: int, is_done: bool) -> None:
        """What was left over was gone on with."""
        if self._rows:
            rows, self._rows = self._rows, 0
            self.took(rows, self._seconds + seconds, self._moved + moved, is_done)
