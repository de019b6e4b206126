"""What can be wrong with a log beyond what :class:`ConnectorError` already says."""

from __future__ import annotations

from penstock.core.errors import ConnectorError


class CorruptLogError(ConnectorError):
    """Bytes in a segment that no crash of a writer can explain. The message names file and position."""

    code = "LOG_CORRUPT"


class OffsetTruncatedError(ConnectorError):
    """Retention has deleted the records that were asked for."""

    code = "LOG_TRUNCATED"


class DecodeError(ConnectorError):
    """A value that its format cannot decode.

    ``index`` is the value's place among those given to ``decode``; the source turns it into
    partition and offset.
    """

    code = "LOG_DECODE"

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        self.reason = reason
        super().__init__(f"record {index} cannot be decoded: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return (DecodeError, (self.index, self.reason))
