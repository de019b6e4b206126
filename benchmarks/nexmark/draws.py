"""Numbers that look random and follow from an event's number alone: by NumPy, and by the same formula in SQL.

A field of an event draws with constants of its own.  Two numbers that go around at different paces are
multiplied, and the middle of the product, multiplied once more, is the draw: all below 2**63 as long as there
are fewer than 2**31 events, so every engine's BIGINT can follow.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

_WORD, _HALF = 2**32, 2**31
_MIDDLE = 20


class Draw:
    """The draws of one field."""

    def __init__(self, field: str) -> None:
        digest = hashlib.sha256(field.encode()).digest()
        words = [int.from_bytes(digest[at : at + 4], "big") for at in range(0, 20, 4)]
        self._paces = [(words[0] | 0x8000_0001, words[1]), (words[2] | 0x8000_0001, words[3])]
        self._factor = words[4] % _HALF | 1

    def below(self, numbers: Any, limit: Any) -> Any:
        """For each event a number from zero up to, not including, ``limit`` (a number, or one for each).

        ``numbers`` are those of the events, as unsigned 32-bit integers.
        """
        one, other = (self._around(numbers, *pace) for pace in self._paces)
        product = one.astype(np.uint64)
        product *= other
        product >>= np.uint64(_MIDDLE)
        middle = product.astype(np.uint32)
        middle *= np.uint32(self._factor)
        drawn = middle.astype(np.int64)
        drawn *= limit
        drawn >>= 32
        return drawn

    def _around(self, numbers: Any, pace: int, start: int) -> Any:
        found = numbers * np.uint32(pace)
        found += np.uint32(start)
        found &= np.uint32(_HALF - 1)
        return found

    def sql(self, number: str, limit: str | int, quotient: str = "/") -> str:
        """The same in SQL; ``quotient`` divides integers to an integer there."""
        one, other = (f"MOD({number} * {pace} + {start}, {_HALF})" for pace, start in self._paces)
        middle = f"MOD({one} * {other} {quotient} {2**_MIDDLE}, {_WORD})"
        return f"(MOD({middle} * {self._factor}, {_WORD}) * {limit} {quotient} {_WORD})"
