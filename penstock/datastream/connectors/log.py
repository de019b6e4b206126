"""Source and sink for the embedded log."""

from __future__ import annotations

from penstock.connectors.log import Json, Log, LogOffsets, LogSink, LogSource, Raw, Text, ValueFormat

__all__ = ["Json", "Log", "LogOffsets", "LogSink", "LogSource", "Raw", "Text", "ValueFormat"]
