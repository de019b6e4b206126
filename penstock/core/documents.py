"""What a snapshot stores beside keyed state: positions, splits, enumerators, committables, operator state.

A document is a mark and a value in the data format (:mod:`penstock.core.plain_data`); only objects of
classes that are not Penstock's are pickles in it, and these are guarded.  Older snapshots have pickles.
"""

from __future__ import annotations

from typing import Any

from penstock.core.pickling import dumps
from penstock.core.plain_data import Codec
from penstock.core.stand_ins import loads_anywhere
from penstock.core.unpickling import loads_stored

MARK = b"\xd0"
"""First byte of a document: no pickle begins so."""

_GUARDED, _ANYWHERE = Codec(dumps, loads_stored), Codec(dumps, loads_anywhere)


def dump(value: Any) -> bytes:
    """The bytes of any value that can be stored at all."""
    return MARK + _GUARDED.encode(value)


def load(data: bytes) -> Any:
    """The value; a :class:`SnapshotError` if it names what a snapshot may not."""
    return _GUARDED.decode(data[1:]) if data[:1] == MARK else loads_stored(data)


def load_trusted(data: bytes) -> Any:
    """The same for tools that were told that the snapshot is trusted, and need not have its classes."""
    return _ANYWHERE.decode(data[1:]) if data[:1] == MARK else loads_anywhere(data)
