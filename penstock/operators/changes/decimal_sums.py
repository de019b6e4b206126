"""Sums and means of decimals of groups: exact, whatever is taken back (see :mod:`penstock.core.decimals`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.decimals import (
    PARTS,
    Wide,
    carried,
    decimals_of,
    mean_of_decimals,
    means,
    parts_of,
    sum_of_decimals,
    whole_numbers,
    wide_numbers,
)
from penstock.operators.changes.accumulators import Accumulator, Arrivals, Mean, Result
from penstock.state.key_index import Rows

_PARTS = tuple(f"part{place}" for place in range(PARTS))


class DecimalSum(Accumulator):
    """The sum of decimals, and how many there were.  More than 38 digits are an error."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {name: (np.int64, 0) for name in (*_PARTS, "count")}

    def __init__(self, column: str, condition: str | None, kind: pa.DataType, label: str) -> None:
        super().__init__()
        self._of = column, condition
        self.kind = sum_of_decimals(kind)
        self._label = label

    @property
    def stored(self) -> Iterable[str]:
        return ("sum", "count")

    def add(self, rows: Arrivals) -> None:
        mask, groups, weights = rows.chosen(*self._of)
        numbers = wide_numbers(rows.column(self._of[0]))
        for name, part in zip(_PARTS, parts_of(numbers if mask is None else numbers[mask]), strict=True):
            if part.any():
                np.add.at(self.arrays[name], groups, part if weights is None else part * weights)
        np.add.at(self.arrays["count"], groups, 1 if weights is None else weights)
        sums = carried([self.arrays[name][groups] for name in _PARTS])
        whole_numbers(sums, self._label)
        for name, part in zip(_PARTS, sums, strict=True):
            self.arrays[name][groups] = part

    def result(self, groups: Rows) -> Result:
        return self._numbers(self.arrays, groups), self.arrays["count"][groups] > 0

    def _numbers(self, arrays: Mapping[str, Any], groups: Rows | slice) -> Wide:
        return whole_numbers([arrays[name][groups] for name in _PARTS], self._label)

    def values(self, result: Result) -> pa.Array:
        numbers, valid = result
        return decimals_of(numbers, self.kind, valid)

    def freeze(self, count: int) -> Callable[[], dict[str, pa.Array]]:
        copies = {name: array[:count].copy() for name, array in self.arrays.items()}

        def made() -> dict[str, pa.Array]:
            sums = decimals_of(self._numbers(copies, slice(None)), self.kind)
            return {"sum": sums, "count": pa.array(copies["count"])}

        return made

    def restore(self, groups: Rows, columns: Mapping[str, pa.Array]) -> None:
        parts = parts_of(wide_numbers(columns["sum"]))
        for name, part in zip(_PARTS, parts, strict=True):
            self.arrays[name][groups] = part
        self.arrays["count"][groups] = columns["count"].to_numpy(zero_copy_only=False)


class DecimalMean(Mean):
    """The mean of decimals, of a sum that another keeps."""

    def __init__(self, total: DecimalSum) -> None:
        super().__init__(total)
        self._sum = total

    def result(self, groups: Rows) -> Result:
        sums = self._sum.result(groups)
        found = means(self._sum.values(sums), self._sum.arrays["count"][groups])
        return wide_numbers(found), sums[1]

    def values(self, result: Result) -> pa.Array:
        numbers, valid = result
        return decimals_of(numbers, mean_of_decimals(self._sum.kind), valid)
