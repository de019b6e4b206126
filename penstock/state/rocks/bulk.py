"""Many row keys and values at once: what ``keys`` and ``values`` make of each, in a few calls for all.

Whole numbers that fit 64 bits and floats take the way over arrays; everything else goes one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core.keygroups import hash_values, key_groups
from penstock.state.backend import EntryShape
from penstock.state.rocks import keys, values

_INT_KEY = np.dtype([("table", "S2"), ("group", ">u2"), ("tag", "S1"), ("number", ">u8")])
_INT = np.dtype([("tag", "S1"), ("number", "<i8")])
_FLOAT = np.dtype([("tag", "S1"), ("number", "<f8")])
_SIGN = np.uint64(1 << 63)
_NUMBERS: dict[type, tuple[bytes, np.dtype[Any]]] = {int: (b"i", _INT), float: (b"f", _FLOAT)}
_BY_TAG = dict(_NUMBERS.values())


def row_keys(
    table: bytes, groups: tuple[bytes, ...], shape: EntryShape, entries: Sequence[Any]
) -> list[bytes]:
    """The row keys of entries of a table with the shape ``KEY`` or ``NAMESPACED``."""
    record_keys = entries if shape is EntryShape.KEY else [entry[0] for entry in entries]
    kinds = set(map(type, record_keys))
    found = key_groups(hash_values(record_keys, kinds), len(groups))
    if shape is EntryShape.KEY:
        if kinds == {int}:
            try:
                numbers = np.array(entries, np.int64)
            except OverflowError:
                pass
            else:
                rows = np.empty(len(entries), _INT_KEY)
                rows["table"], rows["group"], rows["tag"] = table, found, b"i"
                rows["number"] = numbers.view(np.uint64) ^ _SIGN
                return _pieces(rows)
        return [table + groups[g] + keys.encode(e) for g, e in zip(found.tolist(), entries, strict=True)]
    spaces = {space: keys.encode(space) for space in {entry[1] for entry in entries}}
    return [
        table + groups[group] + keys.encode(key) + spaces[space]
        for group, (key, space) in zip(found.tolist(), entries, strict=True)
    ]


def in_order(row_keys: Sequence[bytes]) -> list[int]:
    """The places of row keys in about the order of the rows on disk: neighbours are found faster together."""
    sizes = set(map(len, row_keys))
    if len(sizes) == 1:
        return np.frombuffer(b"".join(row_keys), f"S{sizes.pop()}").argsort().tolist()  # type: ignore[no-any-return]
    return sorted(range(len(row_keys)), key=row_keys.__getitem__)


def encoded(found: Sequence[Any], encode: Callable[[Any], bytes]) -> list[bytes]:
    """What ``encode`` makes of each value, an encoder of ``values``."""
    kinds = set(map(type, found))
    number = _NUMBERS.get(kinds.pop()) if len(kinds) == 1 else None
    if number is not None:
        tag, form = number
        try:
            numbers = np.array(found, form["number"])
        except OverflowError:
            pass
        else:
            rows = np.empty(len(found), form)
            rows["tag"], rows["number"] = tag, numbers
            return _pieces(rows)
    return list(map(encode, found))


def decoded(rows: Sequence[bytes]) -> list[Any]:
    """The values of rows that carry no entry."""
    if set(map(len, rows)) == {_INT.itemsize}:
        form = _BY_TAG.get(rows[0][:1])
        if form is not None:
            found = np.frombuffer(b"".join(rows), form)
            if (found["tag"] == rows[0][:1]).all():
                return found["number"].tolist()  # type: ignore[no-any-return]
    return list(map(values.decode, rows))


def _pieces(rows: np.ndarray[Any, Any]) -> list[bytes]:
    return rows.view(f"V{rows.itemsize}").tolist()  # type: ignore[no-any-return]
