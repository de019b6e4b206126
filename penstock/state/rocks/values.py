"""Values of tables as bytes: a tag, then the value; anything that is not a plain number or text is pickled.

A row whose key does not tell its entry exactly carries the entry in front of the value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.pickling import dumps, loads
from penstock.core.stand_ins import are_allowed, loads_anywhere
from penstock.core.unpicklable import stored
from penstock.core.unpickling import loads_stored

_INT = struct.Struct("<cq")
_FLOAT = struct.Struct("<cd")
_SIZE = struct.Struct("<cI")
_SPREAD = struct.Struct("<ccQ")
_PICKLE, _ENTRY = b"p", b"K"
OPAQUE = frozenset((_PICKLE[0], _ENTRY[0]))
"""First bytes of rows that hold pickled objects."""
_load: Callable[[Any], Any] = loads
"""Rows that this process wrote need no guard, and are read often."""


class Spread(NamedTuple):
    """Stands for a map or list whose elements are rows of their own."""

    kind: bytes
    size: int
    """How many elements a map has; the number that a list's next element gets."""


MAP, LIST = b"m", b"l"


def encode(value: Any) -> bytes:
    """The bytes of a value."""
    encoder = _ENCODERS.get(type(value))
    return _PICKLE + stored(value, "a value of keyed state") if encoder is None else encoder(value)


def with_entry(entry: Any, raw: bytes) -> bytes:
    """A row that carries its entry."""
    data = dumps(entry)
    return b"".join((_SIZE.pack(_ENTRY, len(data)), data, raw))


def split_entry(row: bytes) -> tuple[bytes | None, bytes]:
    """The pickled entry, if the row carries it, and the value's bytes."""
    if row[:1] != _ENTRY:
        return None, row
    start = _SIZE.size
    end = start + _SIZE.unpack_from(row)[1]
    return row[start:end], row[end:]


def is_spread(row: bytes) -> bool:
    """Whether a row stands for a :class:`Spread`."""
    return split_entry(row)[1][:1] == b"S"


def decode(row: bytes) -> Any:
    """The value of a row."""
    if row[:1] == _ENTRY:
        row = split_entry(row)[1]
    try:
        decoder = _DECODERS[row[0]]
    except (KeyError, IndexError) as error:
        raise CorruptSnapshotError(f"a row of keyed state has an unreadable value: {row[:40]!r}") from error
    return decoder(row)


def guard() -> None:
    """From here on rows may be somebody else's: files of a snapshot are being laid out in this process."""
    global _load
    _load = loads_stored


def unpickled(data: bytes) -> Any:
    """Load what :func:`encode` or :func:`with_entry` pickled."""
    if are_allowed():
        return loads_anywhere(data)
    try:
        return _load(data)
    except (AttributeError, ImportError) as error:
        raise SnapshotError(
            f"keyed state is stored pickled and names a class that this program does not have: {error}. "
            "Bring the class back under its old name"
        ) from error


def _encode_int(value: int) -> bytes:
    if -(1 << 63) <= value < 1 << 63:
        return _INT.pack(b"i", value)
    return _PICKLE + dumps(value)


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
    Spread: lambda value: _SPREAD.pack(b"S", *value),
}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    b"i"[0]: lambda row: _INT.unpack(row)[1],
    b"f"[0]: lambda row: _FLOAT.unpack(row)[1],
    b"s"[0]: lambda row: row[1:].decode(),
    b"b"[0]: lambda row: row[1:],
    b"T"[0]: lambda row: True,
    b"F"[0]: lambda row: False,
    b"n"[0]: lambda row: None,
    b"S"[0]: lambda row: Spread(*_SPREAD.unpack(row)[1:]),
    _PICKLE[0]: lambda row: unpickled(row[1:]),
}
