"""Which row a key has: a hash table of NumPy arrays that finds and adds whole batches of keys at once.

Keys are rows of int64 codes (:mod:`penstock.core.codes`) with a hash each; keys get the numbers 0, 1, 2...
in no particular order.  Collisions are probed linearly, all keys of a batch side by side: the number of
rounds depends on the longest collision, not on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.codes import Codes, Mask

_LEAST = 1024
_EMPTY = -1
_SPARE = 4
"""How many places there are for a key, at least: crowded tables take more rounds."""
Rows = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]


def grown(array: npt.NDArray[Any], count: int, fill: Any = 0) -> npt.NDArray[Any]:
    """The array with room for ``count`` elements, new ones being ``fill``; twice as long if it must grow."""
    if len(array) >= count:
        return array
    larger = np.full(max(count, 2 * len(array), _LEAST), fill, array.dtype)
    larger[: len(array)] = array
    return larger


class KeyIndex:
    """Keys of ``width`` codes.  ``exact``: two keys with one hash are the same, unless one has a null."""

    def __init__(self, width: int, exact: bool = False) -> None:
        self._width = width
        self._exact = exact
        self.clear()

    def clear(self) -> None:
        """Forget all keys."""
        self.count = 0
        self._rows: Slots = np.full(_LEAST, _EMPTY, np.int32)
        self._probes: Codes = np.zeros(_LEAST, np.int64)
        self._hashes: Codes = np.zeros(_LEAST, np.int64)
        self._keys: list[Codes] = [np.zeros(_LEAST, np.int64) for _ in range(self._width)]
        self._nulls: Codes = np.zeros(_LEAST, np.int64)
        self._has_nulls = False

    @property
    def hashes(self) -> Codes:
        """The hash of each key."""
        return self._hashes[: self.count]

    @property
    def nulls(self) -> Codes:
        """Of each key, which columns are null: bit 0 for the first."""
        return self._nulls[: self.count]

    def codes(self, column: int) -> Codes:
        """One column of all keys."""
        return self._keys[column][: self.count]

    def locate(self, hashes: Codes, keys: Sequence[Codes], nulls: Codes | None = None) -> Rows:
        """The number of each key; new keys get new ones, from ``count`` on."""
        found = self.find(hashes, keys, nulls)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            self._reserve(self.count + len(missing))
            some = None if nulls is None else nulls[missing]
            found[missing] = self._insert(hashes[missing], [key[missing] for key in keys], some)
        return found

    def find(self, hashes: Codes, keys: Sequence[Codes], nulls: Codes | None = None) -> Rows:
        """The number of each key, -1 if it is not there."""
        last = len(self._rows) - 1
        at = hashes & last
        rows = self._rows[at]
        alike = (self._probes[at] == hashes) & (rows >= 0)
        found: Rows = np.where(alike, rows, _EMPTY).astype(np.int64)
        if not self._exact or self._has_nulls or nulls is not None:
            alike &= self._same(rows, keys, nulls, None)
            found[~alike] = _EMPTY
        todo = np.flatnonzero(~alike & (rows >= 0))
        at = at[todo]
        while len(todo):
            at = (at + 1) & last
            rows = self._rows[at]
            full = rows >= 0
            todo, at, rows = todo[full], at[full], rows[full]
            alike = (self._probes[at] == hashes[todo]) & self._same(rows, keys, nulls, todo)
            found[todo[alike]] = rows[alike]
            todo, at = todo[~alike], at[~alike]
        return found

    def _same(self, rows: Rows, keys: Sequence[Codes], nulls: Codes | None, todo: Rows | None) -> Mask:
        """Whether stored keys are those at ``todo``."""
        same: Mask = np.ones(len(rows), np.bool_)
        for stored, key in zip(self._keys, keys, strict=True):
            same &= stored[rows] == (key if todo is None else key[todo])
        if nulls is not None:
            same &= self._nulls[rows] == (nulls if todo is None else nulls[todo])
        elif self._has_nulls:
            same &= self._nulls[rows] == 0
        return same

    def _insert(self, hashes: Codes, keys: list[Codes], nulls: Codes | None) -> Rows:
        """Add keys that are not there, some of them more than once; their numbers."""
        count, first, last = len(hashes), self.count, len(self._rows) - 1
        owners, places = np.full(count, _EMPTY, np.int64), np.zeros(count, np.int64)
        todo, at = np.arange(count), hashes & last
        columns = [hashes, *keys, *([] if nulls is None else [nulls])]
        while len(todo):
            rows = self._rows[at]
            empty = rows < 0
            # One of those that want a place gets it; equal ones find it there, others go on.
            self._rows[at[empty]] = first + todo[empty]
            rows = self._rows[at].astype(np.int64) - first
            same = rows >= 0
            for column in columns:
                same &= column[np.where(same, rows, 0)] == column[todo]
            owners[todo[same]] = rows[same]
            places[todo[same]] = at[same]
            todo, at = todo[~same], (at[~same] + 1) & last
        winners = np.flatnonzero(owners == np.arange(count))
        numbers = np.zeros(count, np.int64)
        numbers[winners] = np.arange(len(winners)) + first
        self._rows[places[winners]] = numbers[winners]
        self._probes[places[winners]] = hashes[winners]
        self._store(
            hashes[winners], [key[winners] for key in keys], None if nulls is None else nulls[winners]
        )
        found: Rows = numbers[owners]
        return found

    def _store(self, hashes: Codes, keys: Sequence[Codes], nulls: Codes | None) -> None:
        first, count = self.count, self.count + len(hashes)
        self._hashes = grown(self._hashes, count)
        self._hashes[first:count] = hashes
        self._keys = [grown(stored, count) for stored in self._keys]
        for stored, key in zip(self._keys, keys, strict=True):
            stored[first:count] = key
        self._nulls = grown(self._nulls, count)
        self._nulls[first:count] = 0 if nulls is None else nulls
        self._has_nulls |= nulls is not None and bool(nulls.any())
        self.count = count

    def _reserve(self, count: int) -> None:
        if _SPARE * count > len(self._rows):
            self._rehash(_SPARE * count)

    def _rehash(self, least: int) -> None:
        size = max(_LEAST, 1 << (least - 1).bit_length())
        self._rows = np.full(size, _EMPTY, np.int32)
        self._probes = np.zeros(size, np.int64)
        todo, at = np.arange(self.count), self.hashes & (size - 1)
        while len(todo):
            empty = self._rows[at] < 0
            self._rows[at[empty]] = todo[empty]
            settled = self._rows[at] == todo
            self._probes[at[settled]] = self._hashes[todo[settled]]
            todo, at = todo[~settled], (at[~settled] + 1) & (size - 1)

    def replace_codes(self, column: int, codes: Codes) -> None:
        """Other codes for the values of a column, which are the same as before."""
        self._keys[column][: self.count] = codes

    def keep(self, kept: Mask) -> Rows:
        """Forget all keys but these; the new number of each old one, -1 if it is gone."""
        rows = np.flatnonzero(kept)
        moved = np.full(self.count, _EMPTY, np.int64)
        moved[rows] = np.arange(len(rows))
        hashes, nulls = self._hashes[rows], self._nulls[rows]
        keys = [key[rows] for key in self._keys]
        self.clear()
        self._reserve(len(rows))
        self._store(hashes, keys, nulls)
        self._rehash(max(_SPARE * len(rows), 1))
        return moved


def last_of_each(rows: Rows, scratch: Rows) -> Rows:
    """The last position of each different number in ``rows``, ascending; ``scratch`` has room for all."""
    places = np.arange(len(rows))
    scratch[rows] = places
    return np.flatnonzero(scratch[rows] == places)
