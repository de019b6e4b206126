"""What users are told of the failures of a job: the cause and not its echo, and each only once.

When a process dies, its peers see a connection that closes, and that is often what is heard first.  Why it
died is known when the Spark job of the worker group has ended.  So an *echo* (a lost connection, a lost slot)
is told in a few words at once, and its cause as soon as that is known.
"""

from __future__ import annotations

import re
from enum import Enum

from penstock.coordinator.events import AttemptEnded, Event, SlotSaid
from penstock.core.clock import later
from penstock.core.discreet import log_of
from penstock.core.errors import PenstockError, ProcessLostError, TransportError, UserCodeError, coded
from penstock.core.ids import Generation, MonoMs
from penstock.core.messages import TaskFailed

_log = log_of(__name__)

ADVISE_AT = 3
"""Failures in the same way after which users are told what can be done."""
_FORGOTTEN_MS = 3_600_000
"""A failure that has not come for so long is told in full again."""
_ECHOES = (TransportError, ProcessLostError)
_LINE = 200


class _Saying(Enum):
    IN_FULL = "for the first time"
    COUNTED = "the same again"
    WITH_ADVICE = "the same again, often enough for advice"


class FailureReporter:
    """Hears everything that happens to one job; used from one thread."""

    def __init__(self, job_name: str) -> None:
        self._job_name = job_name
        self._generation = Generation(0)
        self._cause: Exception | None = None
        """What made the current attempt fail, as far as any process has said it."""
        self._echo: Exception | None = None
        """A failure whose cause is awaited."""
        self._restart_at = MonoMs(0)
        self._same = ""
        self._count = 0
        self._last_ms = MonoMs(0)

    def heard(self, event: Event, now: MonoMs) -> Exception | None:
        """Look at an event before it is handled; gives the cause of a failure that was told before."""
        generation = getattr(event, "generation", self._generation)
        if generation != self._generation:
            if generation < self._generation:
                return None
            self._generation, self._cause, self._echo = generation, None, None
        if isinstance(event, AttemptEnded):
            lost = event.error if isinstance(event.error, ProcessLostError) else None
            self._cause = self._cause or lost
            return self._settle(now)
        message = event.message if isinstance(event, SlotSaid) else None
        if isinstance(message, TaskFailed) and not isinstance(message.error, _ECHOES):
            self._cause = self._cause or message.error
        return None

    def cause_of(self, error: Exception | None) -> Exception | None:
        """The failure behind an echo, if it is known; else the error itself."""
        return self._cause if isinstance(error, _ECHOES) and self._cause is not None else error

    def failed(self, error: Exception, restart_in_ms: int, now: MonoMs) -> Exception:
        """The job has failed and will restart.  Gives back why, as far as that is known."""
        self._restart_at = later(now, restart_in_ms)
        if isinstance(error, _ECHOES) and self._cause is None:
            self._echo = error
            what = "a slot lost its connection" if isinstance(error, TransportError) else _short(error)
            _log.info("job %r stops and will restart: %s. The cause follows", self._job_name, what)
            return error
        cause = self.cause_of(error) or error
        self._say(cause, now)
        return cause

    def _settle(self, now: MonoMs) -> Exception | None:
        """The attempt is over: now or never its echo has a cause."""
        if self._echo is None:
            return None
        error, self._echo = self.cause_of(self._echo), None
        assert error is not None
        self._say(error, now)
        return error

    def _say(self, error: Exception, now: MonoMs) -> None:
        saying = self._counted(error, now)
        delay = max(0, self._restart_at - now) / 1000
        if saying is _Saying.IN_FULL:
            _log.warning("job %r failed and restarts in %.1f s: %s", self._job_name, delay, coded(error))
            return
        _log.warning(
            "job %r failed again in the same way, %d times by now, and restarts in %.1f s: %s",
            self._job_name,
            self._count,
            delay,
            _short(error),
        )
        if saying is _Saying.WITH_ADVICE:
            _log.warning("job %r: %s", self._job_name, advice(error))

    def _counted(self, error: Exception, now: MonoMs) -> _Saying:
        same = _likeness(error)
        if same != self._same or now - self._last_ms >= _FORGOTTEN_MS:
            self._same, self._count = same, 0
        self._count += 1
        self._last_ms = now
        if self._count == 1:
            return _Saying.IN_FULL
        return _Saying.WITH_ADVICE if self._count == ADVISE_AT else _Saying.COUNTED


def advice(error: Exception) -> str:
    """What can be done about a failure that comes again and again."""
    if isinstance(error, UserCodeError):
        where = f"at the same record, {error.record}" if error.record is not None else "at the same place"
        remedy = (
            f"step {error.step!r} fails {where}, each time. Correct the function, or catch the error in it "
            "and send such records to a side output; what a source cannot decode it skips or diverts with "
            "OnError.SKIP or OnError.DIVERT"
        )
    elif isinstance(error, ProcessLostError):
        remedy = (
            "its processes die in the same way each time. If they run out of memory, lower the parallelism, "
            "give Spark's machines more, or keep state on disk (state.backend.type: rocksdb)"
        )
    else:
        remedy = "the same failure comes each time, and starting again does not cure it"
    return (
        f"{remedy}. A job that is to end instead of trying on has restart-strategy.type fixed-delay or "
        "failure-rate, or restart-strategy.exponential-delay.attempts-before-reset-backoff"
    )


def _likeness(error: Exception) -> str:
    """The same for failures that are one to a user: addresses differ, and numbers of lost processes."""
    text = re.sub(r"\b0x[0-9a-f]+", "0x", str(error))
    if isinstance(error, _ECHOES):
        text = re.sub(r"\d+ (?=MB)|\(\d+\)", "", text)
    return f"{type(error).__name__}: {text}"


def _short(error: Exception) -> str:
    """The first line, with what was raised if that was user code."""
    text = str(error)
    lines = text.splitlines() or [type(error).__name__]
    raised = f": {lines[-1].strip()}" if isinstance(error, UserCodeError) and len(lines) > 1 else ""
    line = lines[0] + raised if isinstance(error, PenstockError) else f"{type(error).__name__}: {lines[0]}"
    return line if len(line) <= _LINE else line[:_LINE] + "..."
