"""``TimeDomain``, where PyFlink programs look for it."""

from __future__ import annotations

from penstock.operators.timer_service import TimeDomain

__all__ = ["TimeDomain"]
