"""Metrics of functions. PyFlink's names."""

from __future__ import annotations

from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
