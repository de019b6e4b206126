"""What Python rows occupy, near enough to bound memory by it and cheap enough to ask for every batch.

A few rows are measured to the bottom.  Of all others only lengths are taken, at C speed: of the row itself,
or of those of its fields that can be long.  So a single giant among small rows is seen, wherever it is, and a
batch of small rows costs nanoseconds a row.  Deeper than that the sample speaks for all.

Objects that rows share are counted in each of them: the estimate errs on the side of stopping early.

To look at all rows of a batch still costs about as much as to route them.  So of the large batches of a
stream (:class:`Gauge`) only some are scanned, one in eight or nine, at irregular distances, lest they keep in
step with something in the data.  The others are judged by their own sample, and by what the scanned ones had
beyond theirs: rare giants count by their mean.  A scan that finds much more than the sample said has every
batch scanned for a while.  Small batches are always scanned: there it costs little more than the sample.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from penstock.core.row import Row

SEGMENT_BYTES = 32 << 10
"""What is worth moving by itself: pieces and shares are no smaller unless somebody wants them so."""
SLOT_BYTES = 8
"""A reference in a list."""
_SAMPLE = 6
"""Rows of a batch that are measured to the bottom."""
_BREADTH = 16
"""Elements of a container that are measured, the others count as much as these; fields that are looked at."""
_DEPTH = 6
_UNKNOWN = 64
"""What counts for an object that cannot be measured."""
_ROW_BYTES = 56
_FIXED: dict[type, int] = {float: 24, bool: 0, type(None): 0, complex: 32, int: 28}
"""Long integers are longer, but a megabyte of digits is nothing that rows are made of."""
_FLAT = frozenset((str, bytes, bytearray))
_MANY = (list, tuple, set, frozenset, deque)
_SIZED = frozenset((str, bytes, bytearray, list, tuple, dict, set, frozenset, deque))

Pick = Callable[[Any], Any]
Part = tuple[Pick | None, list[Any]]
"""How to get at something in a row, the row itself for ``None``, and what the sample has there."""


def rows_bytes(rows: Sequence[Any]) -> int:
    """The bytes of all rows, and of the list that holds them."""
    count = len(rows)
    if count <= _SAMPLE:
        return _each(rows, _DEPTH) + SLOT_BYTES * count
    sample = sampled(rows)
    total = sum(map(deep_bytes, sample)) * count / len(sample)
    if type(rows[0]) is Row:
        with contextlib.suppress(Exception):
            rows = list(map(attrgetter("_values"), rows))
    with contextlib.suppress(Exception):  # objects of the user's may refuse to be looked into
        for pick, picked in _long_parts(rows):
            total += _unseen(rows, pick, picked)
    return max(0, int(total)) + SLOT_BYTES * count


def sampled_bytes(values: Sequence[Any]) -> int:
    """The same by the sample alone."""
    count = len(values)
    sample = sampled(values)
    total = _each(sample, _DEPTH)
    return (total if count <= _SAMPLE else total * count // len(sample)) + SLOT_BYTES * count


def sampled(values: Sequence[Any]) -> Sequence[Any]:
    """Some of them: from all over, and three neighbours, as rows of different kinds often take turns."""
    count = len(values)
    if count <= _SAMPLE:
        return values
    third = count // 3
    return [values[0], *values[third : third + 3], values[2 * third], values[-1]]


def deep_bytes(value: Any, depth: int = _DEPTH) -> int:
    """An object with all it refers to."""
    kind = type(value)
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    try:
        if kind in _FLAT:
            return sys.getsizeof(value)
        if kind is tuple and len(value) <= _BREADTH and depth:
            return sys.getsizeof(value) + _each(value, depth - 1)
        if kind is Row:
            return _ROW_BYTES + deep_bytes(value._values, depth)
        return _own_bytes(value) + (_inner_bytes(value, depth - 1) if depth else 0)
    except Exception:
        # An object of the user's that cannot be measured is no reason to fail.
        return _UNKNOWN


def _each(values: Iterable[Any], depth: int) -> int:
    total = 0
    for value in values:
        fixed = _FIXED.get(type(value))
        total += deep_bytes(value, depth) if fixed is None else fixed
    return total


def _own_bytes(value: Any) -> int:
    """Without what it refers to; arrays say it in ``nbytes``, and those of pandas more exactly here."""
    own = sys.getsizeof(value)
    nbytes = getattr(type(value), "nbytes", None)
    return own if nbytes is None else max(_UNKNOWN, own, int(value.nbytes))


def _inner_bytes(value: Any, depth: int) -> int:
    if isinstance(value, dict):
        return _some_bytes(value, len(value), depth) + _some_bytes(value.values(), len(value), depth)
    if isinstance(value, _MANY):
        return _some_bytes(value, len(value), depth)
    if isinstance(value, np.ndarray):
        if not value.dtype.hasobject:
            return 0
        cells = value.ravel()[:: max(1, value.size // _BREADTH)].tolist()
        return _some_bytes(iter(cells), value.size, depth)
    inner = 0
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        inner += sys.getsizeof(attributes) + _some_bytes(attributes.values(), len(attributes), depth)
    for owner in type(value).__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            inner += deep_bytes(getattr(value, name, None), depth)
    return inner


def _some_bytes(values: Any, count: int, depth: int) -> int:
    """All elements of a container, judged by some of them."""
    if count > _BREADTH:
        if isinstance(values, (list, tuple)):
            values = values[:: count // _BREADTH]
        some = [deep_bytes(value, depth) for value in islice(values, _BREADTH)]
        return sum(some) * count // len(some)
    return _each(values, depth)


# --- lengths of all rows ----------------------------------------------------------------------


def _long_parts(rows: Sequence[Any]) -> list[Part]:
    """The parts of rows that may be long, as the sample knows them."""
    sample = sampled(rows)
    first = sample[0]
    found: list[Part]
    if type(first) is dict:
        names = list(dict.fromkeys(n for row in sample if type(row) is dict for n in islice(row, _BREADTH)))
        found = [(itemgetter(name), [_at(row, name) for row in sample]) for name in names]
    elif isinstance(first, tuple | list) and len(first) <= _BREADTH and _are_alike(sample):
        columns = zip(*sample, strict=True)
        found = [(itemgetter(place), list(column)) for place, column in enumerate(columns)]
    elif type(first) in _SIZED:
        return [(None, list(sample))]
    else:
        names = list(islice(getattr(first, "__dict__", ()), _BREADTH))
        found = [(attrgetter(name), [getattr(row, name, None) for row in sample]) for name in names]
    return [part for part in found if not _SIZED.isdisjoint(map(type, part[1]))]


def _at(row: Any, name: Any) -> Any:
    return row.get(name) if type(row) is dict else None


def _are_alike(sample: Sequence[Any]) -> bool:
    return all(isinstance(row, tuple | list) and len(row) == len(sample[0]) for row in sample)


def _unseen(rows: Sequence[Any], pick: Pick | None, picked: list[Any]) -> float:
    """What a part has beyond the sample's share of it, positive or negative."""
    known = [len(value) for value in picked if type(value) in _SIZED]
    expected = sum(known) * len(rows) / len(picked)
    try:
        found = sum(map(len, rows if pick is None else map(pick, rows)))
    except Exception:
        return _counted(rows, pick, expected)
    return 0.0 if abs(found - expected) <= expected / 4 else _counted(rows, pick, expected)


def _counted(rows: Sequence[Any], pick: Pick | None, expected: float) -> float:
    """The sample does not speak for all: lengths by the sum, bytes per length by the longest."""
    total, most, longest = 0, 0, None
    for row in rows:
        try:
            value = row if pick is None else pick(row)
        except Exception:
            # A row of another shape than those of the sample.
            value = row
        if type(value) in _SIZED:
            total += len(value)
            if len(value) > most:
                most, longest = len(value), value
    return (total - expected) * (deep_bytes(longest) / most) if most else 0.0


SMALL_ROWS = 64
"""Batches up to this length are always scanned."""
LONGEST_GAP = 15
"""So many large batches are at most judged by their samples between two that are scanned."""
WATCHED = 32
"""So many large batches are scanned at first, and behind one that the sample was wrong about."""
_WRONG = 1.5
"""How much more than the sample says is wrong."""
_MEMORY = 256
"""Scans that the mean is made of, about."""


class Gauge:
    """Measures the batches of one stream. What it scans depends on ``seed`` and what it was given before."""

    __slots__ = ("_beyond", "_gap", "_number", "_scans", "_watched")

    def __init__(self, seed: int) -> None:
        self._number = seed
        self._watched = WATCHED
        self._gap = self._scans = 0
        self._beyond = 0.0
        """Bytes of a row that samples did not show, on average."""

    def rows_bytes(self, rows: Sequence[Any]) -> int:
        """The bytes of all rows, and of the list that holds them."""
        if len(rows) <= SMALL_ROWS:
            return rows_bytes(rows)
        sampled = sampled_bytes(rows)
        if self._watched:
            self._watched -= 1
        elif self._gap:
            self._gap -= 1
            return sampled + max(0, int(self._beyond * len(rows)))
        else:
            self._gap = self._next_gap()
        found = rows_bytes(rows)
        self._scans = min(self._scans + 1, _MEMORY)
        self._beyond += ((found - sampled) / len(rows) - self._beyond) / self._scans
        if found > _WRONG * sampled:
            self._watched = WATCHED
        return found

    def _next_gap(self) -> int:
        self._number = (self._number * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._number >> 16) % (LONGEST_GAP + 1)
