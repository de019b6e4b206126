"""``TimeCharacteristic`` of PyFlink 1.x."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(Enum):
    """Which time a program meant before each window said so itself."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
