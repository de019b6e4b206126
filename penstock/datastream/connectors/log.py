"""Source and sink for the embedded log, and its producer and consumer for other programs."""

from __future__ import annotations

from penstock.connectors.log import (
    Consumer,
    Json,
    Log,
    LogOffsets,
    LogSink,
    LogSource,
    Producer,
    Raw,
    Text,
    ValueFormat,
)

__all__ = [
    "Consumer",
    "Json",
    "Log",
    "LogOffsets",
    "LogSink",
    "LogSource",
    "Producer",
    "Raw",
    "Text",
    "ValueFormat",
]
