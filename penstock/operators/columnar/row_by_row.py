"""The built-in aggregates as row functions, for windows and triggers that have no vectorised operator.

Same names, same results, one record at a time: ``RowAggregate`` goes into the ordinary window operator,
``RowResults`` shapes what comes out.  Nulls are skipped as in the vectorised form, and sums of integers
beyond 64 bits or of decimals beyond 38 digits are an error there and here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from penstock.core.decimals import EXACT, MOST_DIGITS
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.operators.columnar.aggregates import Aggregate, Fold, Partial
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, AggregatePlan
from penstock.operators.functions import AggregateFunction
from penstock.operators.window.functions import AllWindowFunction, WindowFunction
from penstock.operators.window.windows import TimeWindow, Window

_LIMIT = 2**63


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        sum_ = EXACT.add(left, right)
        if len(sum_.as_tuple().digits) > MOST_DIGITS:
            raise ConfigError(f"a sum has more than {MOST_DIGITS} digits; make the column a float before agg")
        return sum_
    total = left + right
    if isinstance(total, int) and not -_LIMIT <= total < _LIMIT:
        raise ConfigError("an integer sum overflows int64; make the column a float before agg")
    return total


def _smaller(left: Any, right: Any) -> Any:
    """NaN, which differs from itself, is the largest."""
    return right if left != left or right < left else left


def _larger(left: Any, right: Any) -> Any:
    return right if left == left and not right <= left else left


_JOIN: dict[Fold, Callable[[Any, Any], Any]] = {
    Fold.SUM: _sum,
    Fold.COUNT: _sum,
    Fold.MIN: _smaller,
    Fold.MAX: _larger,
}


class RowAggregate(AggregateFunction):
    """Aggregates over named fields of rows. The accumulator: number of records, then the partials."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._aggregates = tuple(aggregates)
        partials = dict.fromkeys(partial for aggregate in aggregates for partial in aggregate.partials)
        self._partials: tuple[Partial, ...] = tuple(partials)
        self._joins = [_JOIN[partial.fold] for partial in self._partials]

    def create_accumulator(self) -> tuple[Any, ...]:
        """No records."""
        return (0, *(0 if partial.fold is Fold.COUNT else None for partial in self._partials))

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """One record more."""
        return self.merge(accumulator, (1, *(_of_one(partial, value) for partial in self._partials)))

    def merge(self, acc_a: tuple[Any, ...], acc_b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Both together; what is missing on one side is taken from the other."""
        joined = [acc_a[0] + acc_b[0]]
        for join, left, right in zip(self._joins, acc_a[1:], acc_b[1:], strict=True):
            joined.append(left if right is None else right if left is None else join(left, right))
        return tuple(joined)

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """One value per aggregate."""
        named = dict(zip(self._partials, accumulator[1:], strict=True))
        return tuple(aggregate.finish_row(accumulator[0], named) for aggregate in self._aggregates)


def _of_one(partial: Partial, row: Any) -> Any:
    """The partial of a single record."""
    value = partial.source.of_row(row)
    if partial.fold is Fold.COUNT:
        return int(value is not None)
    summable = value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
    if partial.fold is Fold.SUM and not summable:
        raise ConfigError(
            f"field {str(partial.column)!r} holds {value!r}, which cannot be summed or averaged; "
            "make it a number first"
        )
    return value


class RowResults(WindowFunction[Any, Any, Any, Any]):
    """Rows of key fields, window bounds (of windows of time) and aggregates."""

    def __init__(self, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        AggregatePlan.check_names(keys, aggregates)
        self._keys = tuple(keys)
        self._names = tuple(aggregate.name for aggregate in aggregates)

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> list[Row]:
        (results,) = inputs
        keys = (key,) if len(self._keys) == 1 else tuple(key)
        if isinstance(window, TimeWindow):
            names = (*self._keys, WINDOW_START, WINDOW_END, *self._names)
            return Row.many(names, [(*keys, window.start, window.end, *results)])
        return Row.many((*self._keys, *self._names), [(*keys, *results)])


class AllRowResults(AllWindowFunction[Any, Any, Any]):
    """The same for windows over the whole stream."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._results = RowResults((), aggregates)

    def apply(self, window: Window, inputs: Iterable[Any]) -> list[Row]:
        return self._results.apply((), window, inputs)
