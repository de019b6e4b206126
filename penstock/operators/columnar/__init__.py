"""Vectorised windowed aggregates over named columns.

Read in this order: :mod:`panes` (time cut into slices), :mod:`aggregates` (what users ask for),
:mod:`expressions` (what they are computed of),
:mod:`plan` (partial columns, merging, finishing), :mod:`fold` (raw columns to partials),
:mod:`preaggregate` and :mod:`window_agg` (the two operators).
"""

from __future__ import annotations

from penstock.operators.columnar.aggregates import Aggregate, Avg, Count, Max, Min, Sum
from penstock.operators.columnar.expressions import Expression, col
from penstock.operators.columnar.fold import PreAggregateOperator
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import AggregatePlan
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator

__all__ = [
    "Aggregate",
    "AggregatePlan",
    "Avg",
    "ColumnarInput",
    "ColumnarWindowOperator",
    "Count",
    "Expression",
    "Max",
    "Min",
    "Panes",
    "PreAggregateOperator",
    "Sum",
    "col",
]
