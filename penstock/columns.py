"""Aggregates and expressions over named columns, for ``agg`` on windowed streams.

``key_by`` with field names and ``agg`` with these keep a stream in Arrow: no Python runs per record.

>>> event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.ts)
>>> orders = env.from_collection([Row(country="de", amount=3, ts=1), Row(country="de", amount=4, ts=2)])
>>> minutes = orders.assign_timestamps_and_watermarks(event_time).key_by("country").window(
...     TumblingEventTimeWindows.of(Time.minutes(1))
... )
>>> minutes.agg(Count("orders"), Sum(col("amount") * 2, "double")).execute_and_collect(limit=1)
[Row(country='de', window_start=0, window_end=60000, orders=2, double=14)]
"""

from __future__ import annotations

from penstock.core.elsewhere import shown_in
from penstock.expressions.face import Expression, call, coalesce, col, if_then_else, lit, udf, when
from penstock.operators.columnar.aggregates import Aggregate, Avg, Count, Max, Min, Sum

__all__ = [
    "Aggregate",
    "Avg",
    "Count",
    "Expression",
    "Max",
    "Min",
    "Sum",
    "call",
    "coalesce",
    "col",
    "if_then_else",
    "lit",
    "udf",
    "when",
]

shown_in(__name__, __all__, never_stored=True)
