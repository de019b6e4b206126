"""The matching of one key between two events: what is partial, and what is complete and waits.

Everything is plain tuples of numbers, which is also how it is stored.
"""

from __future__ import annotations

from typing import Any

from penstock.core.copying import Copier, copied
from penstock.operators.cep.buffer import Buffer, Path, Shelf

Partial = tuple[int, int, int, int, tuple[int, ...], bool]
"""Last link, first event, its time, time of the last event taken, options still open, and whether no event
has come since the last one taken.  One partial match is one way events were taken, with all ways to go on."""

StoredRun = tuple[int, int, tuple[Partial, ...], tuple[int, ...]]
"""Next event, next link, partial matches by first event, links of complete ones that wait."""

NOTHING: StoredRun = (0, 0, (), ())


class Run:
    """The matching of one key, for the length of one call. ``load`` makes it that of another key."""

    __slots__ = ("_own", "buffer", "changed", "held", "next_event", "partials")

    def __init__(self, shelf: Shelf, own: Copier = copied) -> None:
        self._own = own
        self.buffer = Buffer(shelf)
        self.next_event = 0
        self.partials: list[Partial] = []
        self.held: list[int] = []
        self.changed = False

    def load(self, stored: StoredRun) -> None:
        """Take over what is stored for the key the shelf has turned to."""
        self.next_event, next_link, partials, held = stored
        self.partials, self.held = [*partials], [*held]
        self.buffer.turn_to(next_link)
        self.changed = False

    def stored(self) -> StoredRun | None:
        """What to store; ``None`` for nothing."""
        if not self.partials and not self.held:
            return None
        return self.next_event, self.buffer.next_link, tuple(self.partials), tuple(self.held)

    def give_up_before(self, event: int) -> None:
        """Forget all that began before ``event``."""
        gone = [partial[0] for partial in self.partials if partial[1] < event]
        self.partials = [partial for partial in self.partials if partial[1] >= event]
        waiting = [(link, self.buffer.path(link)[0][0]) for link in self.held]
        gone += [link for link, first in waiting if first < event]
        self.held = [link for link, first in waiting if first >= event]
        for link in gone:
            self.buffer.release(link)

    def match(self, path: Path, steps: tuple[str, ...], event: int, value: Any) -> dict[str, list[Any]]:
        """The events of a path by step; ``value`` is that of ``event``, which need not be in the buffer.

        They are the match's own: other matches may hold the same events.
        """
        found: dict[str, list[Any]] = {}
        for number, step in zip(*path, strict=True):
            taken = value if number == event else self.buffer.value(number)
            found.setdefault(steps[step], []).append(self._own(taken))
        return found
