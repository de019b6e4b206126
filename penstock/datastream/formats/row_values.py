"""The values of a row, by place, and whole numbers of a declared size.

A number that does not fit is a bad record where it is read.  Let through it would fail the job at some later
step, where it can be neither skipped nor diverted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.core.typeinfo import BasicType

_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def row_values(row: Any) -> Iterable[Any]:
    """The row itself, unless it is a dictionary, which would pass its keys off as values."""
    if isinstance(row, Mapping):
        raise TypeError("the record is a dictionary and the schema writes rows; make a Row(**record) of it")
    values: Iterable[Any] = row
    return values


def whole_number_reader(kind: BasicType) -> Callable[[Any], int]:
    """Turns a value into a whole number of ``kind``; of any size, if the kind has none."""
    bits = _BITS.get(kind)
    if bits is None:
        return int
    limit = 1 << (bits - 1)

    def read(value: Any) -> int:
        number = int(value)
        if not -limit <= number < limit:
            raise ValueError(f"{number} does not fit into {bits} bits")
        return number

    return read
