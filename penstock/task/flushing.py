"""When a task sends what it has gathered for others: the flush rule.

Four things decide, and none of them is tuned:

* Is there more input at hand?  Then there is more to gather, and big batches are cheap.
* If not, does the receiver wait?  Then it gets what there is, at once.  If it is busy it would not look at
  it, and what comes meanwhile joins the batch.
* Did the last batch leave just now?  Sending may take a small share of the task's time only, or sources that
  give few records at a time would pay more for sending them than for making them.
* However that may be, nothing waits longer than the buffer timeout.

So a task that is given records faster than it sends them loses no throughput to latency, and one that keeps
up, be it never idle, adds no latency.  Design note 034.
"""

from __future__ import annotations

from penstock.core.clock import Clock
from penstock.exchange.outputs import Outputs

_TIMES_ITS_COST = 16
"""How many times as long as it took to send the last batch the next one is waited for, at most."""
_LONGEST_S = 0.002
"""That wait, if sending seemed to take longer than it can."""


class Flushes:
    """Applies the rule to the outputs of one task."""

    __slots__ = ("_last", "_monotonic", "_outputs", "_sent", "_timeout_s", "_wait_s")

    def __init__(self, outputs: Outputs, clock: Clock, timeout_ms: int) -> None:
        self._outputs = outputs
        self._monotonic = clock.monotonic
        self._timeout_s = timeout_ms / 1000
        self._last = self._sent = clock.monotonic()
        self._wait_s = 0.0

    def flush(self) -> bool:
        """Send everything; says whether there was anything."""
        self._last = self._sent = self._monotonic()
        return self._outputs.flush()

    def after_work(self, ran_out: bool) -> None:
        """Records were processed; ``ran_out`` says whether no more input was at hand behind them."""
        now = self._monotonic()
        if now - self._last >= self._timeout_s:
            self.flush()
        elif ran_out and now - self._sent >= self._wait_s and self._outputs.flush_waiting():
            self._sent = self._monotonic()
            self._wait_s = min(_TIMES_ITS_COST * (self._sent - now), _LONGEST_S)


def is_short(got: int, most: int) -> bool:
    """Whether a source that gave ``got`` of ``most`` records had no more.

    Sources of files end their pieces where blocks end, so just less than what was asked for says nothing.
    """
    return 2 * got < most
