"""Streams as DataFrames: columns by name, expressions, windows; no Python runs per record.

>>> orders = from_records([{"country": "de", "price": 3}, {"country": "fr", "price": 5}])
>>> orders.filter(col("price") > 3).select("country", (col("price") * 2).alias("double")).to_pylist()
[{'country': 'fr', 'double': 10}]

A DataFrame is lazy: it describes steps of a job, on the same operators, snapshots and savepoints as every
other stream.  What is wrong with names and types is said when the step is written.
"""

from __future__ import annotations

from penstock.columns import Expression, call, coalesce, col, if_then_else, lit, udf, when
from penstock.core.elsewhere import shown_in
from penstock.dataframe.frame import DataFrame, GroupedDataFrame, WindowedDataFrame
from penstock.dataframe.making import (
    from_arrow,
    from_data_stream,
    from_dict,
    from_pandas,
    from_records,
    range,
    read_parquet,
)
from penstock.dataframe.windows import Session, Slide, Tumble
from penstock.expressions.face import count

__all__ = [
    "DataFrame",
    "Expression",
    "GroupedDataFrame",
    "Session",
    "Slide",
    "Tumble",
    "WindowedDataFrame",
    "call",
    "coalesce",
    "col",
    "count",
    "from_arrow",
    "from_data_stream",
    "from_dict",
    "from_pandas",
    "from_records",
    "if_then_else",
    "lit",
    "range",
    "read_parquet",
    "udf",
    "when",
]

shown_in(__name__, ["DataFrame", "GroupedDataFrame", "WindowedDataFrame"], never_stored=True)
