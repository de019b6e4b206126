"""Why attempts failed: the error that did it, with the user's stack, and those that came with it.  Pure."""

from __future__ import annotations

import re
import traceback
from collections import deque
from dataclasses import dataclass, replace

from penstock.core.discreet import shown
from penstock.core.errors import UserCodeError, coded
from penstock.core.ids import SlotId, Subtask, WallMs

_KEPT = 50
_MOST_TOGETHER = 20
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True, slots=True)
class Failure:
    """One error."""

    at_ms: WallMs
    name: str
    """The class of what was raised; for a user's function that of its own exception."""
    stack: str
    subtask: Subtask | None = None
    slot: SlotId | None = None
    host: str = ""
    step: str | None = None
    """The step whose function raised."""
    record: str | None = None
    """What it was given, shortened and without secret fields."""


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """What ended an attempt, or the job."""

    root: Failure
    others: tuple[Failure, ...] = ()
    """What else failed in the same attempt."""


class FailureHistory:
    """The newest failures, oldest first."""

    def __init__(self) -> None:
        self.records: deque[FailureRecord] = deque(maxlen=_KEPT)
        self.count = 0
        self._heard: list[tuple[Exception, Failure]] = []
        """Of the attempt that runs."""

    def new_attempt(self) -> None:
        """What is heard from now on is another matter."""
        self._heard.clear()

    def heard(self, error: Exception, failure: Failure) -> None:
        """A task or slot has failed."""
        if len(self._heard) < _MOST_TOGETHER:
            self._heard.append((error, failure))

    def failed(self, error: Exception, now: WallMs) -> Failure:
        """The attempt has failed, by this."""
        root = self._located(error, now)
        self.count += 1
        self.records.append(FailureRecord(root, self._others(root)))
        return root

    def explained(self, error: Exception) -> None:
        """What made the newest failure happen is known only now."""
        if self.records:
            last = self.records[-1]
            root = self._located(error, last.root.at_ms)
            self.records[-1] = replace(last, root=root, others=self._others(root))

    def _located(self, error: Exception, now: WallMs) -> Failure:
        known = next((failure for other, failure in self._heard if other is error), None)
        return known or failure_of(error, now)

    def _others(self, root: Failure) -> tuple[Failure, ...]:
        return tuple(failure for _, failure in self._heard if failure != root)


def failure_of(
    error: Exception,
    now: WallMs,
    subtask: Subtask | None = None,
    slot: SlotId | None = None,
    host: str = "",
) -> Failure:
    """An error as it is shown: without secrets, with the stack of whoever raised it."""
    if isinstance(error, UserCodeError):
        lines = error.trace.strip().splitlines() or [""]
        raised = _RAISED.match(lines[-1])
        name, stack = raised[1] if raised else type(error).__name__, coded(error)
        record = None if error.record is None else shown(error.record)
        return Failure(now, name, shown(stack), subtask, slot, host, shown(error.step), record)
    stack = "".join(traceback.format_exception(error)).rstrip()
    return Failure(now, type(error).__name__, shown(stack), subtask, slot, host)
