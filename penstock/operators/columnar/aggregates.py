"""What users ask for: ``agg(Count("orders"), Sum("amount", "total"), Avg("amount"))``.

In place of a column's name there may be an expression: ``Sum(col("price") * col("quantity"), "revenue")``.

An aggregate is described by the *partials* it is computed from: columns that can be merged any number
of times, in any order, before :meth:`Aggregate.finish` turns them into the result.  Two aggregates over
one column share their partials, so ``Sum`` and ``Avg`` of a column cost one sum.

Nulls are skipped, as in SQL: ``Count`` counts records, everything else ignores nulls and is null itself
when nothing else was there.  Integer sums are int64, sums of decimals have 38 digits, and overflowing is an
error; other sums are double.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.decimals import mean_of_one, means, sum_of_decimals
from penstock.core.errors import ConfigError
from penstock.expressions.face import Expression
from penstock.expressions.nodes import Node
from penstock.operators.columnar.expressions import Computed, computed
from penstock.operators.columnar.value_lists import single_values

ROWS = "__rows"
"""Partial column that every stream has: how many records were folded into the row."""


class Fold(Enum):
    """How the values of a partial column are joined; the value names the column."""

    SUM = "sum"
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    VALUES = "values"

    @property
    def merge(self) -> str:
        """How two partials are joined (see :mod:`grouped`): counts are added up."""
        return "sum" if self is Fold.COUNT else self.value


@dataclass(frozen=True)
class Partial:
    """One mergeable column, made of one input column or of an expression."""

    fold: Fold
    column: str | Node

    @property
    def source(self) -> Computed:
        """What it is made of."""
        return computed(self.column)

    @property
    def name(self) -> str:
        """Name of the partial column, on the wire and in snapshots."""
        return f"__{self.fold.value}:{self.column}"

    def of_raw(self, values: pa.Array) -> pa.Array:
        """The partial of each single record."""
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if self.fold is Fold.COUNT:
            return pc.is_valid(values).cast(pa.int64())
        if self.fold is Fold.VALUES:
            return single_values(values)
        if self.fold is Fold.SUM:
            return self.summable(values)
        return values

    def summable(self, values: pa.Array) -> pa.Array:
        """Values in the type of their sum."""
        kind = values.type
        if pa.types.is_floating(kind):
            return values.cast(pa.float64())
        if pa.types.is_decimal(kind):
            return values.cast(sum_of_decimals(kind))
        if pa.types.is_null(kind):  # rows of Python objects without a single value: of what type is not known
            return values
        if not pa.types.is_integer(kind):
            raise ConfigError(
                f"column {str(self.column)!r} of type {kind} cannot be summed or averaged; "
                "cast it to a number first"
            )
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid as e:
            raise ConfigError(
                f"column {str(self.column)!r} of type {kind} has a value that does not fit int64, "
                "in which integers are summed; cast the column to double"
            ) from e


def _described(column: str | Expression | Node) -> str | Node:
    """As what can be compared and hashed; expressions make new ones when they are compared."""
    if isinstance(column, Expression):
        return column.node
    if not isinstance(column, str | Node):
        raise ConfigError(f"an aggregate takes a column's name or an expression, not {column!r}")
    return column


class Aggregate(ABC):
    """One result column of ``agg``: ``Count``, ``Sum``, ``Min``, ``Max``, ``Avg``.

    >>> [aggregate.name for aggregate in (Count(), Sum("amount"), Avg("amount", "mean"))]
    ['count', 'sum_amount', 'mean']
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the result column."""

    @property
    @abstractmethod
    def partials(self) -> tuple[Partial, ...]:
        """What must be gathered."""

    @abstractmethod
    def finish(self, merged: pa.Table) -> Any:
        """The result column, from fully merged partials, one row a key."""

    @abstractmethod
    def finish_row(self, rows: int, partials: Mapping[Partial, Any]) -> Any:
        """The same for one key: from the number of records and its partials."""


@dataclass(frozen=True)
class Count(Aggregate):
    """Number of records, as a column called ``alias``.

    >>> pairs = env.from_collection([Row(k="a"), Row(k="a")]).key_by("k").count_window(2)
    >>> pairs.agg(Count("n")).execute_and_collect(limit=1)
    [Row(k='a', n=2)]
    """

    alias: str = "count"

    @property
    def name(self) -> str:
        return self.alias

    @property
    def partials(self) -> tuple[Partial, ...]:
        return ()

    def finish(self, merged: pa.Table) -> Any:
        return merged.column(ROWS)

    def finish_row(self, rows: int, partials: Mapping[Partial, Any]) -> Any:
        return rows


@dataclass(frozen=True)
class _Single(Aggregate):
    """An aggregate that is its own partial."""

    fold: ClassVar[Fold]
    column: str | Expression | Node
    alias: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", _described(self.column))

    @property
    def name(self) -> str:
        return self.alias or f"{self.fold.value}_{self.column}"

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (Partial(self.fold, _described(self.column)),)

    def finish(self, merged: pa.Table) -> Any:
        return merged.column(self.partials[0].name)

    def finish_row(self, rows: int, partials: Mapping[Partial, Any]) -> Any:
        return partials[self.partials[0]]


@dataclass(frozen=True)
class Sum(_Single):
    """Sum of a numeric column or expression; ``sum_<column>`` unless named.

    >>> pairs = env.from_collection([Row(k="a", v=2), Row(k="a", v=3)]).key_by("k").count_window(2)
    >>> pairs.agg(Sum("v"), Sum(col("v") * 10, "tens")).execute_and_collect(limit=1)
    [Row(k='a', sum_v=5, tens=50)]
    """

    fold = Fold.SUM

    def finish(self, merged: pa.Table) -> Any:
        return shown_sum(super().finish(merged))


@dataclass(frozen=True)
class Min(_Single):
    """Smallest value of a column or expression; ``min_<column>`` unless named.

    >>> pairs = env.from_collection([Row(k="a", v=2), Row(k="a", v=3)]).key_by("k").count_window(2)
    >>> pairs.agg(Min("v")).execute_and_collect(limit=1)
    [Row(k='a', min_v=2)]
    """

    fold = Fold.MIN


@dataclass(frozen=True)
class Max(_Single):
    """Largest value of a column or expression; ``max_<column>`` unless named.

    >>> pairs = env.from_collection([Row(k="a", v=2), Row(k="a", v=3)]).key_by("k").count_window(2)
    >>> pairs.agg(Max("v", "most")).execute_and_collect(limit=1)
    [Row(k='a', most=3)]
    """

    fold = Fold.MAX


@dataclass(frozen=True)
class Avg(Aggregate):
    """Mean of a numeric column or expression; ``avg_<column>`` unless named.

    A double; of decimals one of 38 digits, at least six of them behind the point, halves away from zero.

    >>> pairs = env.from_collection([Row(k="a", v=2), Row(k="a", v=3)]).key_by("k").count_window(2)
    >>> pairs.agg(Avg("v")).execute_and_collect(limit=1)
    [Row(k='a', avg_v=2.5)]
    """

    column: str | Expression | Node
    alias: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", _described(self.column))

    @property
    def name(self) -> str:
        return self.alias or f"avg_{self.column}"

    @property
    def partials(self) -> tuple[Partial, ...]:
        column = _described(self.column)
        return (Partial(Fold.SUM, column), Partial(Fold.COUNT, column))

    def finish(self, merged: pa.Table) -> Any:
        total, count = (merged.column(partial.name) for partial in self.partials)
        return mean_of_sums(total, count)

    def finish_row(self, rows: int, partials: Mapping[Partial, Any]) -> Any:
        total, count = (partials[partial] for partial in self.partials)
        if isinstance(total, Decimal):
            return mean_of_one(total, count)
        return None if total is None else float(total) / count


def shown_sum(total: Any) -> Any:
    """Sums as they are shown: what there was nothing for to tell a type by is a null number."""
    return total.cast(pa.int64()) if pa.types.is_null(total.type) else total


def mean_of_sums(total: Any, count: Any) -> Any:
    """Sums by their counts."""
    if pa.types.is_decimal(total.type):
        return means(total, np.asarray(count))
    return pc.divide(total.cast(pa.float64(), safe=False), count.cast(pa.float64(), safe=False))
