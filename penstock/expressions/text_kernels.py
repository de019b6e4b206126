"""Kernels of texts that look at bytes: many at once, where the general way goes character by character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.functions import Kernel, Value, on_arrays
from penstock.expressions.lists import element

_LONGEST, _MOST = 256, 32_768


class Remembered:
    """A function of a text that remembers what it gave for short ones, up to a bounded number of them."""

    def __init__(self, compute: Callable[[str], Any]) -> None:
        self._compute = compute
        self._known: dict[str, Any] = {}

    def __call__(self, text: str) -> Any:
        try:
            return self._known[text]
        except KeyError:
            found = self._compute(text)
            if len(text) <= _LONGEST:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[text] = found
            return found


def where_ascii(simple: Kernel, general: Kernel) -> Kernel:
    """The simple kernel for texts in which every character is one byte, else the general one."""

    def kernel(value: Value) -> Value:
        if isinstance(value, pa.Array) and _is_ascii(value):
            return simple(value)
        return general(value)

    return kernel


def _is_ascii(value: pa.Array) -> bool:
    starts, letters = _bytes_of(value)
    return len(letters) == 0 or int(letters[starts[0] : starts[-1]].max(initial=0)) < 0x80


def _bytes_of(value: pa.Array) -> tuple[Any, Any]:
    """Where each text begins, with the end of the last; and the bytes of all."""
    _, offsets, data = value.buffers()
    if offsets is None or data is None:
        return np.zeros(len(value) + 1, np.int32), np.zeros(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32)[value.offset : value.offset + len(value) + 1]
    return starts, np.frombuffer(data, np.uint8)


def split_kernel(separator: str, index: int) -> Kernel:
    """The part at an index from zero between separators; null where there is none."""
    encoded = separator.encode()

    def general(value: pa.Array) -> pa.Array:
        return element(pc.split_pattern(value, separator), index)

    def kernel(value: pa.Array, *_: pa.Array) -> pa.Array:
        if len(encoded) > 1 or index < 0:
            return general(value)
        return _part(value, encoded[0], index)

    return on_arrays(kernel)


def _part(value: pa.Array, separator: int, index: int) -> pa.Array:
    """By the places of all separators: those of a text follow each other among them."""
    starts, letters = _bytes_of(value)
    first, last = int(starts[0]), int(starts[-1])
    places = np.flatnonzero(letters[first:last] == separator)
    places += first
    before = np.searchsorted(places, starts)  # how many separators there are before each text
    count = np.diff(before)
    padded = np.append(places, last)
    begins, ends = starts[:-1].astype(np.int64), starts[1:].astype(np.int64)
    most = len(padded) - 1
    if index > 0:
        begins = padded[np.minimum(before[:-1] + index - 1, most)] + 1
    ends = np.where(count > index, padded[np.minimum(before[:-1] + index, most)], ends)
    there = count >= index
    if value.null_count:
        there &= np.asarray(pc.is_valid(value))
    return _sliced(letters, begins, ends, there)


def _sliced(letters: Any, begins: Any, ends: Any, there: Any) -> pa.Array:
    """Texts made of pieces of others."""
    lengths = np.where(there, ends - begins, 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    shift = np.repeat(np.where(there, begins, 0) - offsets[:-1], lengths)
    data = letters[np.arange(int(offsets[-1])) + shift]
    missing = None if there.all() else pa.array(there).buffers()[1]
    return pa.Array.from_buffers(
        pa.string(), len(lengths), [missing, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
