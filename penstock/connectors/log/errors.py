"""What can be wrong with a log beyond what :class:`ConnectorError` already says."""

from __future__ import annotations

from penstock.core.error_codes import Code
from penstock.core.errors import ConnectorError, PositionGoneError
from penstock.formats.bad_records import DecodeError

__all__ = ["CorruptLogError", "DecodeError", "OffsetTruncatedError"]


class CorruptLogError(ConnectorError):
    """Bytes in a segment that no crash of a writer can explain. The message names file and position."""

    code = Code.LOG_CORRUPT


class OffsetTruncatedError(PositionGoneError):
    """Retention has deleted the records that were asked for."""

    code = Code.POSITION_GONE
