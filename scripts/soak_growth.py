"""Whether something grows: the verdict on a series of samples.  Pure.

A job that has been killed and has recovered looks different from moment to moment, so single values say
little.  The first quarter of a series is warm-up.  Of the rest, the median of its beginning is compared
with that of its end, and most of the later samples must lie above most of the earlier ones: a step, a
spike or a sawtooth of retention is no growth, a steady climb is, however small each step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 12
"""With fewer samples nothing can be said."""
_RISING = 0.4
"""Share of pairs in order less share of pairs out of order, from which on a series is said to climb."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much more than before is still the same."""

    share: float
    amount: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one series."""

    before: float
    after: float
    trend: float
    grows: bool


def judge(values: Sequence[float], allowance: Allowance) -> Verdict | None:
    """Compare the second quarter with the last one; ``None`` if there are too few samples."""
    if len(values) < FEWEST:
        return None
    quarter = len(values) // 4
    settled = values[quarter:]
    before = statistics.median(settled[:quarter])
    after = statistics.median(settled[-quarter:])
    rising = trend(settled)
    above = after > before * (1 + allowance.share) + allowance.amount
    return Verdict(before, after, rising, above and rising > _RISING)


def trend(values: Sequence[float]) -> float:
    """From -1 (always falls) to 1 (always climbs): of all pairs, those in order less those out of order."""
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return sum((b > a) - (b < a) for a, b in pairs) / len(pairs) if pairs else 0.0
