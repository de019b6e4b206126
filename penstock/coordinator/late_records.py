"""Late records that steps have dropped: a line a minute while there are more, and one at the end.  Pure.

Tasks count them in the metric ``numLateRecordsDropped`` of the step, and the driver reads it out of what it
hears of them anyway.  An attempt counts from zero, so what earlier ones dropped is added; a record that is
read again after a restart counts again.
"""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Mapping

from penstock.core.ids import Generation, MonoMs, Subtask
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
