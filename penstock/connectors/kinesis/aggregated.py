"""Records that the Kinesis Producer Library has packed into one, taken apart again.  Pure.

Such a record is a mark, a message of Protocol Buffers (field 3: the records, whose field 3 is the data), and
the MD5 sum of the message.  What does not fit is an ordinary record that happens to begin alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

MARK = b"\xf3\x89\x9a\xc2"
_SUM = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RECORDS = _DATA = 3


def unpacked(data: bytes) -> list[bytes]:
    """The records inside, or ``data`` itself if it is one."""
    if not data.startswith(MARK) or len(data) < len(MARK) + _SUM:
        return [data]
    message, total = data[len(MARK) : -_SUM], data[-_SUM:]
    if hashlib.md5(message, usedforsecurity=False).digest() != total:
        return [data]
    try:
        packed = [value for number, value in _fields(message) if number == _RECORDS]
        return [value for record in packed for number, value in _fields(record) if number == _DATA]
    except (IndexError, ValueError):
        return [data]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of a message's fields; only of those that are bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field ends behind its message")
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"no field has the kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
