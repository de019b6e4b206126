"""PyFlink's ``metrics.metricbase``: the metrics a function may touch."""

from __future__ import annotations

from abc import ABC

from penstock.core.elsewhere import shown_in
from penstock.core.metrics import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

shown_in(__name__, ["Counter", "Distribution", "Meter", "MetricGroup"])


class Metric(ABC):  # noqa: B024 - a common name for isinstance, nothing to implement
    """Any of the metrics."""


Metric.register(Counter)
Metric.register(Distribution)
