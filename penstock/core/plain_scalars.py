"""Values of the data format that have no others in them: their bodies as bytes, and back.

Read :mod:`penstock.core.plain_data` first.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.core.keys import NAN

Body = Callable[[Any], bytes]
Reader = Callable[[bytes, int, int], Any]
"""From all bytes, and where the body begins and ends."""

_Q, _D = struct.Struct("<q"), struct.Struct("<d")
_DAY = struct.Struct("<I")
_SPAN = struct.Struct("<iii")
_MOMENT = struct.Struct("<HBBBBBIB")
_CLOCK = struct.Struct("<BBBIB")


class UnfitError(Exception):
    """A value that the format cannot hold."""


def _zone(value: Any) -> bytes:
    """Of a time: nothing, an offset and perhaps its name, or the name of a place."""
    if value is None:
        return b""
    if type(value) is dt.timezone:
        offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
        return b"k" + _span(offset) + b"".join(b"\0" + text.encode() for text in name)
    if type(value) is zoneinfo.ZoneInfo and value.key is not None:
        return b"Z" + value.key.encode()
    raise UnfitError("a time of a zone that has no name")


def _read_zone(data: bytes) -> dt.tzinfo | None:
    if not data:
        return None
    if data[:1] == b"Z":
        return zoneinfo.ZoneInfo(data[1:].decode())
    if data[:1] != b"k":
        raise ValueError("a zone is neither an offset nor a place")
    offset, name = _read_span(data, 1, 1 + _SPAN.size), data[1 + _SPAN.size :]
    return dt.timezone(offset, name[1:].decode()) if name else dt.timezone(offset)


def _moment(value: dt.datetime) -> bytes:
    day = (value.year, value.month, value.day)
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return _MOMENT.pack(*day, *clock) + _zone(value.tzinfo)


def _read_moment(data: bytes, start: int, end: int) -> dt.datetime:
    year, month, day, hour, minute, second, micros, fold = _MOMENT.unpack_from(data, start)
    zone = _read_zone(data[start + _MOMENT.size : end])
    return dt.datetime(year, month, day, hour, minute, second, micros, zone, fold=fold)


def _clock(value: dt.time) -> bytes:
    packed = _CLOCK.pack(value.hour, value.minute, value.second, value.microsecond, value.fold)
    return packed + _zone(value.tzinfo)


def _read_clock(data: bytes, start: int, end: int) -> dt.time:
    hour, minute, second, micros, fold = _CLOCK.unpack_from(data, start)
    return dt.time(hour, minute, second, micros, _read_zone(data[start + _CLOCK.size : end]), fold=fold)


def _span(value: dt.timedelta) -> bytes:
    return _SPAN.pack(value.days, value.seconds, value.microseconds)


def _read_span(data: bytes, start: int, end: int) -> dt.timedelta:
    return dt.timedelta(*_SPAN.unpack(data[start:end]))


def _uuid(value: uuid.UUID) -> bytes:
    if value.is_safe is not uuid.SafeUUID.unknown:
        raise UnfitError("a UUID that knows how it was made")
    return value.bytes


def _big(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _read_bool(data: bytes, start: int, end: int) -> bool:
    return (b"\0", b"\1").index(data[start:end]) == 1


def _read_nothing(value: Any) -> Reader:
    def read(data: bytes, start: int, end: int) -> Any:
        if start != end:
            raise ValueError("something stands where nothing should")
        return value

    return read


BODIES: dict[int, Body] = {
    b"n"[0]: lambda value: b"",
    b"N"[0]: lambda value: b"",
    b"?"[0]: lambda value: b"\1" if value else b"\0",
    b"i"[0]: _Q.pack,
    b"f"[0]: _D.pack,
    b"I"[0]: _big,
    b"s"[0]: str.encode,
    b"b"[0]: lambda value: value,
    b"B"[0]: bytes,
    b"e"[0]: lambda value: str(value).encode(),
    b"d"[0]: lambda value: _DAY.pack(value.toordinal()),
    b"g"[0]: _span,
    b"z"[0]: _moment,
    b"c"[0]: _clock,
    b"u"[0]: _uuid,
}
READERS: dict[int, Reader] = {
    b"n"[0]: _read_nothing(None),
    b"N"[0]: _read_nothing(NAN),
    b"?"[0]: _read_bool,
    b"i"[0]: lambda data, start, end: _Q.unpack(data[start:end])[0],
    b"f"[0]: lambda data, start, end: _D.unpack(data[start:end])[0],
    b"I"[0]: lambda data, start, end: int.from_bytes(data[start:end], "little", signed=True),
    b"s"[0]: lambda data, start, end: data[start:end].decode(),
    b"b"[0]: lambda data, start, end: data[start:end],
    b"B"[0]: lambda data, start, end: bytearray(data[start:end]),
    b"e"[0]: lambda data, start, end: Decimal(data[start:end].decode("ascii")),
    b"d"[0]: lambda data, start, end: dt.date.fromordinal(_DAY.unpack(data[start:end])[0]),
    b"g"[0]: _read_span,
    b"z"[0]: _read_moment,
    b"c"[0]: _read_clock,
    b"u"[0]: lambda data, start, end: uuid.UUID(bytes=data[start:end]),
}
