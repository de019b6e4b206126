"""What a workload gave: its figure, and what it took. Text and ratios of these."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Figures:
    """One run of a workload, or the median of some; what was not measured is None."""

    events_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    processor_s_per_m: float | None = None
    """Processor seconds per million events, of all processes with the start of the job."""
    peak_mb: float | None = None
    """The most memory that all processes had together."""

    def text(self) -> str:
        """Events a second, or percentiles of the delay."""
        if self.events_s is not None:
            return f"{self.events_s:,.0f}"
        late = [each for each in (self.p50_ms, self.p99_ms, self.p999_ms) if each is not None]
        return " / ".join(f"{each:.2f}" for each in late) or "failed"


def median(found: Sequence[Figures]) -> Figures:
    """The median of each figure."""
    values = {field.name: [getattr(one, field.name) for one in found] for field in fields(Figures)}
    return Figures(
        **{name: None if None in each else statistics.median(each) for name, each in values.items()}
    )


def ratio(mine: Figures, other: Figures) -> str:
    """How ours compares: times as many events, or the share of the delay."""
    if mine.events_s is not None and other.events_s:
        return f"{mine.events_s / other.events_s:.2f}x"
    if mine.p99_ms is not None and other.p99_ms:
        return f"{mine.p99_ms / other.p99_ms:.2f} (p99)"
    return ""


def plain(value: float | None, form: str) -> str:
    """A number in a cell; nothing if it was not measured."""
    return "" if value is None else format(value, form)
