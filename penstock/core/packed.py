"""Many small values as few byte strings: what a snapshot copies and stores for next to nothing.

Values that stay as they are (names of splits that were seen, splits that wait) are packed once, so a
snapshot of a hundred thousand of them costs what a few hundred references cost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.core.documents import dump, load

_LOT = 4096
_LEVEL = 1


def pack(values: Iterable[Any]) -> bytes:
    """Values as bytes."""
    return zlib.compress(dump(tuple(values)), _LEVEL)


def unpack(data: bytes) -> tuple[Any, ...]:
    """The values that were packed."""
    values: tuple[Any, ...] = load(zlib.decompress(data))
    return values


@dataclass(frozen=True, slots=True)
class PackedNames:
    """Names as a snapshot holds them; a Penstock without this class cannot take them for anything else."""

    lots: tuple[bytes, ...]


class Names:
    """A set of names that only grows, in the order in which they came."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: dict[str, None] = {}
        self._lots: list[bytes] = []
        self._loose: list[str] = []
        self.update(names)

    @classmethod
    def restored(cls, stored: PackedNames | Iterable[str]) -> Names:
        """From what :meth:`packed` gave; plain names, as snapshots held them once, are taken as well."""
        if isinstance(stored, PackedNames):
            return cls(name for lot in stored.lots for name in unpack(lot))
        return cls(stored)

    def add(self, name: str) -> bool:
        """Take a name; false if it was there already."""
        if name in self._names:
            return False
        self._names[name] = None
        self._loose.append(name)
        if len(self._loose) == _LOT:
            self._lots.append(pack(self._loose))
            self._loose = []
        return True

    def update(self, names: Iterable[str]) -> None:
        """Take several."""
        for name in names:
            self.add(name)

    def packed(self) -> PackedNames:
        """All of them, for a snapshot."""
        return PackedNames((*self._lots, pack(self._loose)) if self._loose else tuple(self._lots))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
