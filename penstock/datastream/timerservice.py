"""``TimerService``, where PyFlink programs look for it."""

from __future__ import annotations

from penstock.core.elsewhere import shown_in
from penstock.operators.timer_service import TimerService

__all__ = ["TimerService"]

shown_in(__name__, __all__)
