"""PyFlink's ``common.time``: lengths of time and instants."""

from __future__ import annotations

from penstock.core.durations import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
