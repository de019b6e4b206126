"""What groups gather: counts, sums, smallest and largest values, one array of NumPy for all groups.

Rows come with weights: +1 for one that is added, -1 for one that is taken back.  Counts and sums of
integers are exact then; sums of floats as exact as floats are, with NaN and the infinities counted apart,
so that they can be taken back, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.codes import Codes, Mask, plain_column, validity
from penstock.core.errors import ConfigError
from penstock.state.interning import Coder, coder_of
from penstock.state.key_index import Rows, grown

Numbers = npt.NDArray[Any]
Result = tuple[Numbers, Mask | None]
"""Numbers and where they are valid; ``None``: everywhere."""


@dataclass(frozen=True)
class Aggregated:
    """One aggregate of groups: of a column, of the rows where ``condition`` is true, as column ``name``."""

    function: str
    name: str
    label: str
    """What its state is called in snapshots: the text of the aggregate."""
    column: str | None = None
    condition: str | None = None
    distinct: bool = False
    argument: str | None = None
    """The text of what the column has, by which its values are found in snapshots; else its name."""
    where: str | None = None
    """The text of the condition."""


class Arrivals:
    """The rows of a batch, with the numbers of their groups."""

    def __init__(self, columns: pa.RecordBatch, groups: Rows, weights: Codes | None) -> None:
        self._columns = columns
        self._groups = groups
        self._weights = weights
        self._known: dict[Any, Any] = {}

    def column(self, name: str) -> pa.Array:
        """A column, without a dictionary."""
        return plain_column(self._columns.column(name))

    def mask(self, column: str | None, condition: str | None) -> Mask | None:
        """The rows that have a value and for which the condition is true; ``None``: all."""
        key = (column, condition)
        if key not in self._known:
            valid = None if column is None else validity(self.column(column))
            if condition is not None:
                true = np.asarray(self.column(condition).fill_null(False))
                valid = true if valid is None else valid & true
            self._known[key] = valid
        found: Mask | None = self._known[key]
        return found

    def chosen(self, column: str | None, condition: str | None) -> tuple[Mask | None, Rows, Codes | None]:
        """Which rows, the groups and the weights of these."""
        key = ("chosen", column, condition)
        if key not in self._known:
            mask = self.mask(column, condition)
            if mask is None:
                self._known[key] = None, self._groups, self._weights
            else:
                weights = None if self._weights is None else self._weights[mask]
                self._known[key] = mask, self._groups[mask], weights
        found: tuple[Mask | None, Rows, Codes | None] = self._known[key]
        return found

    def numbers(self, column: str, mask: Mask | None) -> Numbers:
        """The values of some rows, none of which is null."""
        values = self.column(column)
        if values.null_count:
            values = values.fill_null(0)
        found: Numbers = values.to_numpy(zero_copy_only=False)
        return found if mask is None else found[mask]


class Accumulator(ABC):
    """One number or several for each group.  ``parts`` names the arrays, with type and first value."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]]

    @property
    def stored(self) -> Iterable[str]:
        """Its columns in snapshots."""
        return self.parts

    def __init__(self) -> None:
        self.arrays: dict[str, Numbers] = {
            name: np.full(0, fill, dtype) for name, (dtype, fill) in self.parts.items()
        }

    def grow(self, count: int) -> None:
        """Make room for so many groups."""
        for name, (_, fill) in self.parts.items():
            self.arrays[name] = grown(self.arrays[name], count, fill)

    def keep(self, rows: Rows) -> None:
        """Forget all groups but these, which are numbered anew."""
        self.arrays = {name: array[rows] for name, array in self.arrays.items()}

    @abstractmethod
    def add(self, rows: Arrivals) -> None:
        """Take rows."""

    def forget(self) -> None:  # noqa: B027
        """Let go what no group has any more; results are asked for anew then."""

    @abstractmethod
    def result(self, groups: Rows) -> Result:
        """What some groups have."""

    def values(self, result: Result) -> pa.Array:
        """Results as a column."""
        numbers, valid = result
        return pa.array(numbers, mask=None if valid is None else ~valid)

    def freeze(self, count: int) -> Callable[[], dict[str, pa.Array]]:
        """The arrays as they are now, as columns made later."""
        copies = {name: array[:count].copy() for name, array in self.arrays.items()}
        return lambda: {name: pa.array(array) for name, array in copies.items()}

    def restore(self, groups: Rows, columns: Mapping[str, pa.Array]) -> None:
        """Take what these groups had; no other has been there before."""
        for name in self.parts:
            self.arrays[name][groups] = columns[name].to_numpy(zero_copy_only=False)

    def clear(self) -> None:
        """Forget all groups."""
        self.arrays = {name: array[:0] for name, array in self.arrays.items()}


class Counted(Accumulator):
    """How many rows."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {"count": (np.int64, 0)}

    def __init__(self, column: str | None, condition: str | None) -> None:
        super().__init__()
        self._of = column, condition

    def add(self, rows: Arrivals) -> None:
        _, groups, weights = rows.chosen(*self._of)
        np.add.at(self.arrays["count"], groups, 1 if weights is None else weights)

    def result(self, groups: Rows) -> Result:
        return self.arrays["count"][groups], None


class IntegerSum(Accumulator):
    """The sum of integers, and how many there were.  What does not fit int64 is an error."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {"sum": (np.int64, 0), "count": (np.int64, 0)}

    def __init__(self, column: str, condition: str | None, label: str) -> None:
        super().__init__()
        self._of = column, condition
        self._label = label
        self._reach = 2**63
        """No sum is further from zero; at first that is not known."""

    def add(self, rows: Arrivals) -> None:
        mask, groups, weights = rows.chosen(*self._of)
        if not len(groups):
            return
        values = rows.numbers(self._of[0], mask)
        most = max(-int(values.min()), int(values.max()), 0)
        self._reach += most * len(values)
        if self._reach >= 2**63:
            self._look(groups, values, weights, most)
        with np.errstate(over="ignore"):
            np.add.at(self.arrays["sum"], groups, values if weights is None else values * weights)
        np.add.at(self.arrays["count"], groups, 1 if weights is None else weights)

    def _look(self, groups: Rows, values: Numbers, weights: Codes | None, most: int) -> None:
        """Find out how far sums are from zero, and refuse those that would be too far."""
        sums = self.arrays["sum"]
        furthest = max(-int(sums.min()), int(sums.max()), 0) if len(sums) else 0
        self._reach = furthest + most * len(values)
        if self._reach < 2**63:
            return
        exact: dict[int, int] = {}
        signs = [1] * len(values) if weights is None else weights.tolist()
        for group, value, sign in zip(groups.tolist(), values.tolist(), signs, strict=True):
            exact[group] = exact.get(group, int(sums[group])) + value * sign
        if any(not -(2**63) <= total < 2**63 for total in exact.values()):
            raise ConfigError(f"{self._label} overflows int64; cast its argument to double")

    def keep(self, rows: Rows) -> None:
        super().keep(rows)
        self._reach = 2**63

    def result(self, groups: Rows) -> Result:
        return self.arrays["sum"][groups], self.arrays["count"][groups] > 0


class FloatSum(Accumulator):
    """The sum of floats, and how many there were."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {
        "sum": (np.float64, 0.0),
        "count": (np.int64, 0),
        "nan": (np.int64, 0),
        "above": (np.int64, 0),
        "below": (np.int64, 0),
    }

    def __init__(self, column: str, condition: str | None) -> None:
        super().__init__()
        self._of = column, condition

    def add(self, rows: Arrivals) -> None:
        mask, groups, weights = rows.chosen(*self._of)
        values = rows.numbers(self._of[0], mask)
        counts = self.arrays["count"]
        np.add.at(counts, groups, 1 if weights is None else weights)
        finite = np.isfinite(values)
        if not finite.all():
            signs = np.ones(len(values), np.int64) if weights is None else weights
            for name, odd in (
                ("nan", np.isnan(values)),
                ("above", values == np.inf),
                ("below", values == -np.inf),
            ):
                np.add.at(self.arrays[name], groups[odd], signs[odd])
            values = np.where(finite, values, 0.0)
        np.add.at(self.arrays["sum"], groups, values if weights is None else values * weights)
        if weights is not None:
            empty = groups[counts[groups] == 0]
            self.arrays["sum"][empty] = 0.0  # what rounding left

    def result(self, groups: Rows) -> Result:
        part = {name: array[groups] for name, array in self.arrays.items()}
        sums = part["sum"]
        nan, above, below = part["nan"] > 0, part["above"] > 0, part["below"] > 0
        if (nan | above | below).any():
            sums = np.where(above, np.inf, np.where(below, -np.inf, sums))
            sums = np.where(nan | (above & below), np.nan, sums)
        return sums, part["count"] > 0


class Mean(Accumulator):
    """The mean, of a sum that another keeps."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {}

    def __init__(self, total: Accumulator) -> None:
        super().__init__()
        self._total = total

    def add(self, rows: Arrivals) -> None:
        """Nothing: the sum gets the rows."""

    def result(self, groups: Rows) -> Result:
        sums, valid = self._total.result(groups)
        counts = self._total.arrays["count"][groups]
        return sums / np.where(counts > 0, counts, 1).astype(np.float64), valid


class Extreme(Accumulator):
    """The smallest or largest value of rows that are never taken back."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {"best": (np.int64, 0), "filled": (np.bool_, False)}

    def __init__(self, column: str, condition: str | None, kind: pa.DataType, largest: bool) -> None:
        super().__init__()
        self._of = column, condition
        self._largest = largest
        self.coder: Coder = coder_of(kind)

    def add(self, rows: Arrivals) -> None:
        mask, groups, _ = rows.chosen(*self._of)
        codes = self.coder.codes(rows.column(self._of[0]))
        self.improve(groups, codes if mask is None else codes[mask])

    @property
    def stored(self) -> Iterable[str]:
        return ("best",)

    def forget(self) -> None:
        # Not while results of before are compared with those of now: they are codes, too.
        if self.coder.is_large:
            (self.arrays["best"],) = self.coder.shrink([self.arrays["best"]])

    def improve(self, groups: Rows, codes: Codes) -> None:
        """Take values that are there."""
        best, filled = self.arrays["best"], self.arrays["filled"]
        if type(self.coder) is not Coder:
            stored = np.unique(groups[filled[groups]])
            groups, codes = np.concatenate([stored, groups]), np.concatenate([best[stored], codes])
            order = np.lexsort((self.coder.ranks(codes) * (1 if self._largest else -1), groups))
            best[groups[order]] = codes[order]  # the last one stays
        else:
            new = groups[~filled[groups]]
            best[new] = np.iinfo(np.int64).min if self._largest else np.iinfo(np.int64).max
            (np.maximum if self._largest else np.minimum).at(best, groups, codes)
        filled[groups] = True

    def result(self, groups: Rows) -> Result:
        return self.arrays["best"][groups], self.arrays["filled"][groups]

    def values(self, result: Result) -> pa.Array:
        return self.coder.values(*result)

    def freeze(self, count: int) -> Callable[[], dict[str, pa.Array]]:
        best, filled = (self.arrays[name][:count].copy() for name in ("best", "filled"))
        coder = self.coder.frozen()
        return lambda: {"best": coder.values(best, filled)}

    def restore(self, groups: Rows, columns: Mapping[str, pa.Array]) -> None:
        column = plain_column(columns["best"])
        self.arrays["best"][groups] = self.coder.codes(column)
        valid = validity(column)
        self.arrays["filled"][groups] = True if valid is None else valid

    def clear(self) -> None:
        super().clear()
        self.coder.clear()
