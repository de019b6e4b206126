"""How much of a processor the page may take: whoever looks at a job must not slow it.

The server's thread counts the processor time it has used.  While that is more than its share, requests wait
for their turn, in order: a crowd gets slower answers, not a slower job.  A few clients never notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.clock import Clock, computed_s
from penstock.rest.look import Refused

OVER = "the page was closed before this was answered: the job, or what else served it, has ended"
SHARE = 0.1
"""Of one core, in the long run."""
_SAVED_S = 2.0
"""Processor time that may be used at once by somebody who has not asked for long."""
_SHORTEST_S, _LONGEST_S = 0.001, 0.1


class Share:
    """What one server may use. All methods on the thread that serves.

    ``used`` gives the seconds that this thread has computed.
    """

    def __init__(self, clock: Clock, used: Callable[[], float] = computed_s) -> None:
        self._used = used
        self._now = clock.monotonic
        self._saved = _SAVED_S
        self._last: tuple[float, float] | None = None
        self._line = asyncio.Lock()
        self._is_over = False

    def owed_s(self) -> float:
        """How long to wait until the share covers what was used; 0 if it does."""
        used, now = self._used(), self._now()
        before_used, before = self._last or (used, now)
        self._last = used, now
        self._saved = min(_SAVED_S, self._saved + SHARE * (now - before) - (used - before_used))
        owed = -self._saved / SHARE
        return owed if owed > _SHORTEST_S else 0.0

    def leave(self) -> None:
        """The server is about to leave: whoever waits is told so, the end of the job waits for no turns."""
        self._is_over = True

    async def turn(self) -> None:
        """Return when a request may be answered; refused if the server leaves before that."""
        if not self._line.locked() and not self.owed_s():
            return
        async with self._line:
            while owed := self.owed_s():
                if self._is_over:
                    raise Refused(503, OVER)
                await asyncio.sleep(min(owed, _LONGEST_S))
