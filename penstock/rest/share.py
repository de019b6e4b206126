"""How much of a processor the page may take: whoever looks at a job must not slow it.

The server's thread counts the processor time it has used.  While that is more than its share, requests wait
for their turn, in order: a crowd gets slower answers, not a slower job.  A few clients never notice.  Behind
the job there is nothing left to spare: whoever still waits is answered.

Strangers, who are refused, wait until nobody else does.  What the thread does without a turn (it takes calls,
and answers the command line) is owed only in part: else a flood of calls would shut the page for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.clock import Clock, computed_s

SHARE = 0.05
"""Of one core, in the long run."""
_SAVED_S = 2.0
"""Processor time that may be used at once by somebody who has not asked for long."""
_MOST_OWED_S = 0.75
"""Processor time that is made up for: it takes 15 seconds, half of what a request may."""
_RESERVED_S = 0.5
"""Of what was saved, so much is not for strangers: a flood of them leaves it."""
_SHORTEST_S, _LONGEST_S = 0.001, 0.25


class Share:
    """What one server may use. All methods on the thread that serves, but for :meth:`end`.

    ``used`` gives the seconds that this thread has computed.
    """

    def __init__(self, clock: Clock, used: Callable[[], float] = computed_s) -> None:
        self._used = used
        self._now = clock.monotonic
        self._saved = _SAVED_S
        self._last: tuple[float, float] | None = None
        self._line, self._strangers = asyncio.Lock(), asyncio.Lock()
        self._over = False

    def end(self) -> None:
        """The job is over: nobody waits any more. From any thread, at any time."""
        self._over = True

    def owed_s(self) -> float:
        """How long to wait until the share covers what was used; 0 if it does, or the job is over."""
        if self._over:
            return 0.0
        used, now = self._used(), self._now()
        before_used, before = self._last or (used, now)
        self._last = used, now
        saved = self._saved + SHARE * (now - before) - (used - before_used)
        self._saved = max(min(_SAVED_S, saved), -_MOST_OWED_S)
        owed = -self._saved / SHARE
        return owed if owed > _SHORTEST_S else 0.0

    async def turn(self, known: bool = True) -> None:
        """Return when a request may be answered; ``known`` is that of somebody who may ask."""
        line = self._line if known else self._strangers
        if not line.locked() and not self._wait_s(known):
            return
        async with line:
            while wait := self._wait_s(known):
                await asyncio.sleep(min(wait, _LONGEST_S))

    def _wait_s(self, known: bool) -> float:
        owed = self.owed_s()
        if known or self._over:
            return owed
        missing = (_RESERVED_S - self._saved) / SHARE
        return _LONGEST_S if self._line.locked() else missing if missing > _SHORTEST_S else 0.0
