"""What users hear of a running job besides its results: through the log of the driver.

* Event time stands still, or checkpoints are held: said when it begins and when it is over.
* What a step finds odd in its records (:class:`~penstock.core.messages.Remark`): once a step and kind,
  however many subtasks and attempts find it; more of the same is counted.
* Late records that steps have dropped: a line a minute while there are more, and one at the end.  Tasks count
  them in the metric ``numLateRecordsDropped`` of the step, and the driver reads it out of what it hears of
  them anyway.  An attempt counts from zero, so what earlier ones dropped is added; a record that is read
  again after a restart counts again.
"""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from penstock.coordinator.events import Held, Rescaled, Stalled
from penstock.core.discreet import log_of
from penstock.core.ids import Generation, MonoMs, Subtask
from penstock.core.messages import FromSlot, Heartbeat, Remark, TaskFinished
from penstock.core.metrics import LATE_COUNTER

_SUFFIX = "." + LATE_COUNTER
_WAY_OUT = (
    "the watermark had passed their time. Let it wait longer (for_bounded_out_of_orderness), give windows "
    "allowed_lateness, or take such records from a side output (side_output_late_data)"
)


class LateRecords:
    """Adds up what the tasks say; ``every_ms`` of 0 says nothing."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._generation = Generation(0)
        self._before: Sums[str] = Sums()
        """What earlier attempts have dropped."""
        self._counts: dict[tuple[Subtask, str], int] = {}
        self._told: Sums[str] = Sums()
        self._told_ms: MonoMs | None = None

    def dropped(self) -> Sums[str]:
        """How many each step has dropped in all."""
        sums = self._before.copy()
        for (_, step), count in self._counts.items():
            sums[step] += count
        return sums

    def heard(
        self, generation: Generation, metrics: Mapping[Subtask, Mapping[str, float]], now: MonoMs
    ) -> list[str]:
        """Tasks have sent their metrics; what to say now, a line a step."""
        self._take(generation, metrics)
        if self._told_ms is None:
            self._told_ms = now
        if not self._every_ms or now - self._told_ms < self._every_ms:
            return []
        passed, self._told_ms = now - self._told_ms, now
        return self._grown(f" in the last {passed / 1000:.0f} s")

    def at_end(self) -> list[str]:
        """The job is over: all that was dropped, a line a step."""
        if not self._every_ms:
            return []
        return [_line(step, f"{_records(count)} in all") for step, count in sorted(self.dropped().items())]

    def _take(self, generation: Generation, metrics: Mapping[Subtask, Mapping[str, float]]) -> None:
        if generation > self._generation:
            self._generation, self._before, self._counts = generation, self.dropped(), {}
        if generation < self._generation:
            return  # what it counted is added already
        for subtask, values in metrics.items():
            for name, value in values.items():
                if value and name.endswith(_SUFFIX):
                    self._counts[subtask, name.removesuffix(_SUFFIX)] = int(value)

    def _grown(self, since: str) -> list[str]:
        now = self.dropped()
        more, self._told = now - self._told, now
        return [
            _line(step, f"{_records(count)}{since}, {now[step]:,} in all")
            for step, count in sorted(more.items())
        ]


def _line(step: str, what: str) -> str:
    return f"step {step!r} has dropped {what}: {_WAY_OUT}"


def _records(count: int) -> str:
    return f"{count:,} late record{'s' if count != 1 else ''}"


_log = log_of(__name__)


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

    def on_rescaled(self, instruction: Rescaled) -> None:
        """Another parallelism: how far that is."""
        if instruction.error is None:
            _log.info("job %r: %s", self._job, instruction.text)
        else:
            self._warn(f"{instruction.text}: {instruction.error}")

    def on_scaled(self, future: Future[str]) -> None:
        """What the autoscaler wanted is done, or cannot be had. On any thread."""
        error = future.exception()
        if error is not None:
            self._warn(f"the autoscaler does not get what it wants: {error}")

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
