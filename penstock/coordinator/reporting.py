"""What users hear of a running job besides its results: through the log of the driver.

* Event time stands still, or checkpoints are held: said when it begins and when it is over.
* What a step finds odd in its records (:class:`~penstock.core.messages.Remark`): once a step and kind,
  however many subtasks and attempts find it; more of the same is counted.
* Late records that were dropped: a line a minute, and one at the end (``coordinator/late_records.py``).
"""

from __future__ import annotations

import logging
from collections import Counter as Sums
from collections.abc import Callable, Mapping

from penstock.coordinator.events import Held, Stalled
from penstock.coordinator.late_records import LateRecords
from penstock.core.ids import Generation, MonoMs, Subtask
from penstock.core.messages import FromSlot, Heartbeat, Remark, TaskFinished

_log = logging.getLogger("penstock")


class JobReporter:
    """Says it. Called from one thread."""

    def __init__(self, job_name: str, late_ms: int) -> None:
        self._job = job_name
        self._late = LateRecords(late_ms)
        self.stalled: str | None = None
        """Why event time stands still, if it has for long."""
        self.remarks: Sums[tuple[str, str]] = Sums()
        """How often each step has made each kind of remark."""

    @property
    def late_dropped(self) -> int:
        """Late records that all steps have dropped."""
        return self._late.dropped().total()

    def on_stalled(self, instruction: Stalled) -> None:
        """Event time stands still, or goes on."""
        if instruction.why is None:
            _log.info("job %r: the watermark advances again", self._job)
        else:
            self._warn(instruction.why)
        self.stalled = instruction.why  # last: a user who sees it listed finds it in the log

    def on_held(self, instruction: Held) -> None:
        """Checkpoints wait for commits, or go on."""
        if instruction.why is None:
            _log.info("job %r: commits have caught up, checkpoints go on", self._job)
        else:
            self._warn(instruction.why)

    def hear(self, generation: Generation, message: FromSlot, now: Callable[[], MonoMs]) -> None:
        """A slot has said something."""
        match message:
            case Heartbeat(metrics) if metrics:
                self._count(generation, metrics, now())
            case TaskFinished(subtask, metrics):
                self._count(generation, {subtask: metrics}, now())
            case Remark():
                self.remark(message)

    def remark(self, remark: Remark) -> None:
        """A step finds something odd."""
        self.remarks[remark.step, remark.kind] += 1
        if self.remarks[remark.step, remark.kind] == 1:
            self._warn(f"step {remark.step!r}: {remark.text}")

    def _count(
        self, generation: Generation, metrics: Mapping[Subtask, Mapping[str, float]], now: MonoMs
    ) -> None:
        for line in self._late.heard(generation, metrics, now):
            self._warn(line)

    def at_end(self) -> None:
        """The job is over."""
        for line in self._late.at_end():
            self._warn(line)

    def _warn(self, what: str) -> None:
        _log.warning("job %r: %s", self._job, what)
