"""Entries of tables as row keys.

::

    state   u16 table | u16 key group | key | namespace
    timer   u16 table | u64 time, biased | u16 key group | key | namespace

Keys that Python holds equal have equal bytes (``1``, ``1.0`` and ``True``; a tuple and a named tuple), and
every part says where it ends.  From most bytes the entry can be read back; where it cannot (:func:`is_exact`)
the row's value carries the entry itself.  Timers stand in order of time on disk.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import io
import pickle
import struct
import uuid
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from penstock.core.errors import CorruptSnapshotError
from penstock.core.keys import (
    NAN,
    compared_fields,
    int_text,
    is_plain_member,
    moment_text,
    number_of,
    time_text,
)
from penstock.core.row import Row
from penstock.state.backend import EntryShape

TABLE = struct.Struct(">H")
GROUP = struct.Struct(">H")
TIME = struct.Struct(">Q")
_BIAS = 1 << 63
_INT = struct.Struct(">cQ")
_FLOAT = struct.Struct(">cd")
_SIZE = struct.Struct(">cI")
_NONE = b"n"
_NAN = _FLOAT.pack(b"f", float("nan"))


@cache
def group_bytes(count: int) -> tuple[bytes, ...]:
    """The bytes of all key groups."""
    return tuple(map(GROUP.pack, range(count)))


def encode(value: Any) -> bytes:
    """The bytes of a key, a namespace, or a part of either."""
    encoder = _ENCODERS.get(type(value))
    return _encode_other(value) if encoder is None else encoder(value)


def encode_entry(shape: EntryShape, entry: Any) -> bytes:
    """What stands behind the key group."""
    if shape is EntryShape.KEY:
        return encode(entry)
    return encode(entry[-2]) + encode(entry[-1])


def is_exact(value: Any) -> bool:
    """Whether :func:`decode` gives back the very value, not just one that is equal to it."""
    kind = type(value)
    if kind in EXACT:
        return True
    if kind is float:
        return not value.is_integer()
    return kind is tuple and all(map(is_exact, value))


def entry_is_exact(shape: EntryShape, entry: Any) -> bool:
    """The same for an entry; the time of a timer always is."""
    if shape is EntryShape.KEY:
        return is_exact(entry)
    return is_exact(entry[-2]) and is_exact(entry[-1])


def timer_bytes(time: int) -> bytes:
    """A time so that bytes compare as times do."""
    return TIME.pack(time + _BIAS)


def decode_entry(shape: EntryShape, row: bytes) -> Any:
    """The entry of a row key."""
    try:
        if shape is EntryShape.KEY:
            return decode(row, 4)[0]
        time = TIME.unpack_from(row, 2)[0] - _BIAS if shape is EntryShape.TIMER else 0
        key, position = decode(row, 12 if shape is EntryShape.TIMER else 4)
        namespace = decode(row, position)[0]
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise CorruptSnapshotError(f"a row of keyed state has an unreadable key: {row!r}") from error
    return (key, namespace) if shape is EntryShape.NAMESPACED else (time, key, namespace)


def group_of(shape: EntryShape, row: bytes) -> int:
    """The key group in a row key."""
    found: int = GROUP.unpack_from(row, 10 if shape is EntryShape.TIMER else 2)[0]
    return found


# --- encoding -----------------------------------------------------------------------------------


def _sized(tag: bytes, data: bytes) -> bytes:
    return _SIZE.pack(tag, len(data)) + data


def _int(value: int) -> bytes:
    if -_BIAS <= value < _BIAS:
        return _INT.pack(b"i", value + _BIAS)
    return _sized(b"I", int_text(value).encode())


def _float(value: float) -> bytes:
    if value.is_integer():
        return _int(int(value))
    return _FLOAT.pack(b"f", value) if value == value else _NAN


def _str(value: str) -> bytes:
    return _sized(b"s", value.encode("utf-8", "surrogatepass"))


def _sequence(tag: bytes, items: Iterable[Any]) -> bytes:
    parts = [encode(item) for item in items]
    return _SIZE.pack(tag, len(parts)) + b"".join(parts)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _int,
    bool: lambda value: _int(int(value)),
    float: _float,
    str: _str,
    bytes: lambda value: _sized(b"b", value),
    tuple: lambda value: _sequence(b"t", value),
    type(None): lambda value: _NONE,
}
EXACT = frozenset({int, str, bytes, type(None)})


def _encode_other(value: Any) -> bytes:
    """Everything else that may be a key (see ``core.hashing``), and any object as a namespace."""
    if is_plain_member(value):
        return _sequence(b"e", (type(value).__module__, type(value).__qualname__, value.name))
    if isinstance(value, (int, np.integer, np.bool_)):
        return _int(int(value))
    if isinstance(value, (float, np.floating)):
        return _float(float(value))
    if isinstance(value, str):
        return _str(str.__str__(value))
    if isinstance(value, bytes):
        return _sized(b"b", bytes(value))
    if isinstance(value, tuple):
        return _sequence(b"t", value)
    if isinstance(value, Row):
        return _sequence(b"r", (value.field_names(), value.get_row_kind().value, *value))
    if isinstance(value, decimal.Decimal):
        equal = number_of(value)
        return _sized(b"D", equal.encode()) if isinstance(equal, str) else encode(equal)
    if isinstance(value, dt.datetime) and value.utcoffset() is not None:
        return _sized(b"z", moment_text(value).encode())
    if isinstance(value, (dt.date, dt.time, dt.timedelta)):
        return _sized(b"d", time_text(value).encode())
    if isinstance(value, uuid.UUID):
        return _sized(b"d", f"UUID:{value}".encode())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, name) for name in compared_fields(type(value))]
        return _sequence(b"c", (type(value).__module__, type(value).__qualname__, *fields))
    return _sized(b"p", _pickled(value))


def _pickled(value: Any) -> bytes:
    """A pickle that depends on the value alone, not on which of its parts are the same object."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=5)
    pickler.fast = True
    pickler.dump(value)
    return file.getvalue()


# --- decoding -----------------------------------------------------------------------------------


def decode(row: bytes, position: int) -> tuple[Any, int]:
    """The value at ``position``, as far as its bytes tell, and where the next one begins."""
    tag = row[position]
    if tag == 0x69:  # i
        return _INT.unpack_from(row, position)[1] - _BIAS, position + 9
    if tag == 0x66:  # f
        number = _FLOAT.unpack_from(row, position)[1]
        return number if number == number else NAN, position + 9
    if tag == 0x6E:  # n
        return None, position + 1
    kind, size = _SIZE.unpack_from(row, position)
    position += _SIZE.size
    if kind in (b"t", b"r", b"e", b"c"):
        items = []
        for _ in range(size):
            item, position = decode(row, position)
            items.append(item)
        return tuple(items), position
    end = position + size
    if end > len(row):
        raise ValueError("a key is longer than its row")
    return _PLAIN[kind](row[position:end]), end


_PLAIN: dict[bytes, Callable[[bytes], Any]] = {
    b"s": lambda data: data.decode("utf-8", "surrogatepass"),
    b"b": bytes,
    b"I": lambda data: int(data.decode(), 0),
    b"z": bytes,
    b"d": bytes,
    b"D": bytes,
    b"p": bytes,
}
