"""Summaries of numbers in the shapes of Flink's REST.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of all are at or below: one of them, the next above where none fits."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values: Iterable[float]) -> dict[str, int | float | str]:
    """Smallest, largest, mean and percentiles: what is shown of checkpoints."""
    ordered = sorted(values)
    if not ordered:
        return {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(_PERCENTILES, "NaN")}
    whole: dict[str, int | float | str] = {
        "min": int(ordered[0]),
        "max": int(ordered[-1]),
        "avg": int(sum(ordered) / len(ordered)),
    }
    return whole | {name: float(percentile(ordered, share)) for name, share in _PERCENTILES.items()}


def spread(values: Iterable[float]) -> dict[str, int]:
    """The same with sum and quartiles, in whole numbers: what is shown of subtasks."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), 0)
    return {
        "min": int(ordered[0]),
        "max": int(ordered[-1]),
        "avg": int(sum(ordered) / len(ordered)),
        "sum": int(sum(ordered)),
        "median": int(percentile(ordered, 0.5)),
        "p25": int(percentile(ordered, 0.25)),
        "p75": int(percentile(ordered, 0.75)),
        "p95": int(percentile(ordered, 0.95)),
    }


def aggregates(values: Sequence[float]) -> dict[str, float]:
    """What metric calls may ask for; ``skew`` is the mean distance from the mean, in percent of it."""
    mean = sum(values) / len(values)
    off = sum(abs(value - mean) for value in values) / len(values)
    return {
        "min": min(values),
        "max": max(values),
        "avg": mean,
        "sum": sum(values),
        "skew": min(100.0, 100 * off / mean) if mean > 0 else 0.0,
    }
