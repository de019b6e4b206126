"""Texts and other values without codes of their own, numbered in the order in which they came.

The numbers mean something within one task only: snapshots have the values.  What is not used any more is
forgotten when whoever keeps the numbers says which he still has (:meth:`Interned.shrink`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.codes import Codes, Mask, codes_of, has_codes, values_of

_FEW_PER_CODE = 8
"""With so many values for each code that is asked for, sorting the codes is the cheaper way to find them."""
_FEW = 65536


class Coder:
    """Codes of the values of one column and back."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind

    def codes(self, array: pa.Array) -> Codes:
        """A code for each value; whatever for nulls."""
        return codes_of(array)

    def values(self, codes: Codes, valid: Mask | None = None) -> pa.Array:
        """The values of codes."""
        return values_of(codes, self.type, valid)

    def ranks(self, codes: Codes) -> Codes:
        """Numbers in the order of the values of ``codes``."""
        return codes

    def shrink(self, used: Sequence[Codes]) -> list[Codes]:
        """Forget all values but those of the codes that are still used; these as they are called now."""
        return list(used)

    @property
    def is_large(self) -> bool:
        """Whether it is worth to ask which codes are still used."""
        return False

    def frozen(self) -> Coder:
        """One that knows, in any thread and for ever, the values of the codes that there are now."""
        return self

    def clear(self) -> None:
        """Forget all values."""


class Interned(Coder):
    """Codes of values that are kept here."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._threshold = _FEW
        self.clear()

    def clear(self) -> None:
        self._known: dict[Any, int] = {}
        self._values: list[Any] = []

    def codes(self, array: pa.Array) -> Codes:
        encoded = array.dictionary_encode()
        indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        numbers = np.fromiter(map(self._number, encoded.dictionary.to_pylist()), np.int64)
        if not len(numbers):
            return np.zeros(len(array), np.int64)
        found: Codes = numbers[indices]
        if array.null_count:
            found[~np.asarray(array.is_valid())] = 0
        return found

    def _number(self, value: Any) -> int:
        number = self._known.get(value)
        if number is None:
            number = self._known[value] = len(self._values)
            self._values.append(value)
        return number

    def values(self, codes: Codes, valid: Mask | None = None) -> pa.Array:
        if valid is not None:
            codes = np.where(valid, codes, 0)
        if not len(codes) or not self._values:
            return pa.nulls(len(codes), self.type)
        different, places = self._different(codes)
        dictionary = pa.array([self._values[code] for code in different.tolist()], self.type)
        return dictionary.take(pa.array(places, mask=None if valid is None else ~valid))

    def ranks(self, codes: Codes) -> Codes:
        if not self._values:  # nothing but nulls so far
            return np.zeros(len(codes), np.int64)
        different, places = self._different(codes)
        texts = [self._values[code] for code in different.tolist()]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        ranks = np.empty(len(texts), np.int64)
        ranks[order] = np.arange(len(texts))
        found: Codes = ranks[places]
        return found

    def _different(self, codes: Codes) -> tuple[Codes, Codes]:
        """The different codes, in order, and where each is among them."""
        known = len(self._values)
        if known > _FEW_PER_CODE * len(codes):
            found: tuple[Codes, Codes] = np.unique(codes, return_inverse=True)
            return found
        there = np.zeros(known, np.bool_)  # what sorting costs more than
        there[codes] = True
        return np.flatnonzero(there), (np.cumsum(there) - 1)[codes]

    @property
    def is_large(self) -> bool:
        return len(self._values) > self._threshold

    def frozen(self) -> Coder:
        # The list only grows; when it shrinks, it is another one.
        still = Interned(self.type)
        still._values = self._values
        return still

    def shrink(self, used: Sequence[Codes]) -> list[Codes]:
        kept = np.unique(np.concatenate(used)) if used else np.zeros(0, np.int64)
        kept = kept[kept < len(self._values)]
        values = [self._values[code] for code in kept.tolist()]
        self._known = {value: number for number, value in enumerate(values)}
        self._values = values
        self._threshold = max(_FEW, 2 * len(values))
        return [np.searchsorted(kept, codes) for codes in used]


def coder_of(kind: pa.DataType) -> Coder:
    """The coder of a type of comparable values."""
    return Coder(kind) if has_codes(kind) else Interned(kind)
