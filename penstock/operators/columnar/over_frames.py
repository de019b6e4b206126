"""Folds over frames: for each row the sum, the smallest or the largest of a stretch of rows around it.  Pure.

A stretch begins at ``starts[i]`` and ends before ``ends[i]`` and is never empty.  Of frames without a lower
bound many share their beginning; they are folded by running once over each group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Indices
from penstock.core.decimals import carried, decimals_of, parts_of, whole_numbers, wide_numbers
from penstock.core.errors import ConfigError
from penstock.operators.columnar.aggregates import Fold

Values = npt.NDArray[Any]
_ROOM = float(2**63 - 1024)


def fold_frames(fold: Fold, values: pa.Array, starts: Indices, ends: Indices, begins: Indices) -> pa.Array:
    """The fold of each stretch; null where it has nothing but nulls.

    ``begins``: where the groups begin, of which every stretch lies in one.  If all stretches begin there,
    too, running folds are used.
    """
    if pa.types.is_null(values.type):
        return pa.nulls(len(starts))
    valid = values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    some = _differences(np.cumsum(valid), starts, ends) > 0
    if pa.types.is_decimal(values.type) and fold is Fold.SUM:
        return _sums_of_decimals(values, starts, ends, some)
    if fold in (Fold.SUM, Fold.COUNT):
        filled = values.fill_null(0).to_numpy(zero_copy_only=False)
        found = _sums(filled, starts, ends, begins)
        return pa.array(found, values.type, mask=~some)
    return _extremes(fold, values, starts, ends, begins, some)


def _differences(running: Values, starts: Indices, ends: Indices) -> Values:
    found: Values = running[ends - 1] - np.where(starts > 0, running[starts - 1], 0)
    return found


def _sums_of_decimals(values: pa.Array, starts: Indices, ends: Indices, some: Values) -> pa.Array:
    parts = [_differences(np.cumsum(part), starts, ends) for part in parts_of(wide_numbers(values))]
    sums = whole_numbers(carried(parts), "a sum over a frame")
    return decimals_of(sums, values.type, None if some.all() else some)


def _sums(values: Values, starts: Indices, ends: Indices, begins: Indices) -> Values:
    if np.issubdtype(values.dtype, np.integer):
        # Differences are right also when the running sum has gone around, unless a sum itself does not fit.
        found = _differences(np.cumsum(values), starts, ends)
        if len(values) and np.abs(values.astype(np.float64)).sum() >= _ROOM:
            exact = _differences(np.cumsum(values.astype(object)), starts, ends)
            if any(int(one) != int(other) for one, other in zip(found, exact, strict=True)):
                raise ConfigError("a sum over a frame overflows int64; cast the column to double")
        return found
    return _folded(np.add, values, starts, ends, begins)


def _extremes(
    fold: Fold, values: pa.Array, starts: Indices, ends: Indices, begins: Indices, some: Values
) -> pa.Array:
    """By rank among the distinct values, so that any type will do that can be sorted."""
    known = pc.unique(values.drop_null())
    known = known.take(pc.sort_indices(known))
    ranks = pc.index_in(values, value_set=known).to_numpy(zero_copy_only=False)
    last = len(known) - 1
    # From one on, and the wanted one the largest: zero is nothing.
    ranks = np.where(np.isnan(ranks.astype(np.float64)), -1, ranks).astype(np.int64) + 1
    if fold is Fold.MIN:
        ranks = np.where(ranks > 0, last + 2 - ranks, 0)
    found = _largest(ranks, last + 2, starts, ends, begins) - 1
    found = last - found if fold is Fold.MIN else found
    return known.take(pa.array(np.where(some, found, 0), pa.int64(), mask=~some))


def _largest(ranks: Values, width: int, starts: Indices, ends: Indices, begins: Indices) -> Values:
    if len(starts) and np.isin(starts, begins).all():
        # Each group above the ones before it, so that one run goes over all of them.
        floor = np.zeros(len(ranks), np.int64)
        floor[begins[1:]] = width
        floor = np.cumsum(floor)
        return (np.maximum.accumulate(ranks + floor) - floor)[ends - 1]
    return _folded(np.maximum, ranks, starts, ends, begins)


def _folded(call: Any, values: Values, starts: Indices, ends: Indices, begins: Indices) -> Values:
    if len(starts) and np.isin(starts, begins).all():
        running = _running(call.accumulate, values, begins)
        return running[ends - 1]
    padded = np.append(values, values[:1])
    found: Values = call.reduceat(padded, np.column_stack((starts, ends)).ravel())[::2]
    return found


def _running(accumulate: Callable[[Values], Values], values: Values, begins: Indices) -> Values:
    found = np.empty_like(values)
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(values)], strict=True):
        found[begin:end] = accumulate(values[begin:end])
    return found
