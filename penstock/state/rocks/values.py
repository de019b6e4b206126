"""Values of tables as bytes: a tag, then the value.

Values of a declared type are in the data format (:mod:`penstock.core.plain_data`).  Those of state that
declares none are pickled, except for plain numbers and texts: they may be anything, and what pickle can copy
without asking Python it copies faster.  What has no place in the data format is pickled, too.

A row whose key does not tell its entry exactly carries the entry in front of the value, in the data format if
it has a place there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.packed_rows import dumps_packed
from penstock.core.pickling import dumps, loads, stored
from penstock.core.plain_data import Codec
from penstock.core.plain_scalars import UnfitError
from penstock.core.stand_ins import are_allowed, loads_anywhere
from penstock.core.unpickling import loads_stored

_INT = struct.Struct("<cq")
_FLOAT = struct.Struct("<cd")
_SIZE = struct.Struct("<cI")
_LARGE = struct.Struct("<ccQ")
_DATA = Codec()
_PICKLE, _ENTRY, _PLAIN_ENTRY = b"p", b"K", b"k"
_ENTRIES = (_ENTRY, _PLAIN_ENTRY)
_load: Callable[[Any], Any] = loads
"""Rows that this process wrote need no guard, and are read often."""


class LargeCollection(NamedTuple):
    """Stands for a map or list whose elements are rows of their own."""

    kind: bytes
    size: int
    """How many elements a map has; the number that a list's next element gets."""


MAP, LIST = b"m", b"l"


def encode(value: Any) -> bytes:
    """The bytes of a value of any type."""
    encoder = _ENCODERS.get(type(value))
    return _pickled(value) if encoder is None else encoder(value)


def encode_typed(value: Any) -> bytes:
    """The bytes of a value whose type was declared."""
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    try:
        return _DATA.encode(value)
    except UnfitError:
        return _pickled(value)


def _pickled(value: Any) -> bytes:
    return _PICKLE + stored(value, "a value of keyed state", dumps_packed)


def with_entry(entry: Any, raw: bytes) -> bytes:
    """A row that carries its entry."""
    try:
        tag, data = _PLAIN_ENTRY, _DATA.encode(entry)
    except UnfitError:
        tag, data = _ENTRY, dumps(entry)
    return b"".join((_SIZE.pack(tag, len(data)), data, raw))


def split_entry(row: bytes) -> tuple[bytes | None, bytes]:
    """The bytes of the entry, for :func:`entry_of`, if the row carries it; and the value's bytes."""
    if row[:1] not in _ENTRIES:
        return None, row
    start = _SIZE.size
    end = start + int.from_bytes(row[1:start], "little")
    if end >= len(row):
        raise _unreadable(row)
    return row[:1] + row[start:end], row[end:]


def entry_of(carried: bytes) -> Any:
    """The entry that a row carries."""
    return unpickled(carried[1:]) if carried[:1] == _ENTRY else _DATA.decode(carried[1:])


def is_pickled(part: bytes | None) -> bool:
    """Whether an entry or a value, as :func:`split_entry` gives them, is a pickle."""
    return part is not None and part[:1] in (_ENTRY, _PICKLE)


def holds_pickles(row: bytes) -> bool:
    """Whether the entry or the value of a row is a pickle."""
    return any(map(is_pickled, split_entry(row)))


def is_large(row: bytes) -> bool:
    """Whether a row stands for a :class:`LargeCollection`."""
    return split_entry(row)[1][:1] == b"S"


def decode(row: bytes) -> Any:
    """The value of a row."""
    if row[:1] in _ENTRIES:
        row = split_entry(row)[1]
    decoder = _DECODERS.get(row[0]) if row else None
    if decoder is None:
        return _DATA.decode(row)
    try:
        return decoder(row)
    except (struct.error, UnicodeDecodeError) as error:
        raise _unreadable(row) from error


def _unreadable(row: bytes) -> CorruptSnapshotError:
    return CorruptSnapshotError(f"a row of keyed state is not readable: {row[:40]!r}")


def guard() -> None:
    """From here on rows may be of another process: files of a snapshot are being laid out in this one."""
    global _load
    _load = loads_stored


def unpickled(data: bytes) -> Any:
    """Load what was pickled."""
    if are_allowed():
        return loads_anywhere(data)
    try:
        return _load(data)
    except (AttributeError, ImportError) as error:
        raise SnapshotError(
            f"keyed state is stored pickled and names a class that this program does not have: {error}. "
            "Bring the class back under its old name",
            code=Code.CLASS_GONE,
        ) from error


def _encode_int(value: int) -> bytes:
    if -(1 << 63) <= value < 1 << 63:
        return _INT.pack(b"i", value)
    return _DATA.encode(value)


def _encode_str(value: str) -> bytes:
    try:
        return b"s" + value.encode()
    except UnicodeEncodeError:
        return _PICKLE + dumps(value)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _encode_int,
    float: lambda value: _FLOAT.pack(b"f", value),
    str: _encode_str,
    bytes: lambda value: b"b" + value,
    bool: lambda value: b"T" if value else b"F",
    type(None): lambda value: b"n",
    LargeCollection: lambda value: _LARGE.pack(b"S", *value),
}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    b"i"[0]: lambda row: _INT.unpack(row)[1],
    b"f"[0]: lambda row: _FLOAT.unpack(row)[1],
    b"s"[0]: lambda row: row[1:].decode(),
    b"b"[0]: lambda row: row[1:],
    b"T"[0]: lambda row: True,
    b"F"[0]: lambda row: False,
    b"n"[0]: lambda row: None,
    b"S"[0]: lambda row: LargeCollection(*_LARGE.unpack(row)[1:]),
    _PICKLE[0]: lambda row: unpickled(row[1:]),
}
