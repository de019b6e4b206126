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
from penstock.dataframe.exchanging import from_dataframe, from_polars
from penstock.dataframe.frame import DataFrame
from penstock.dataframe.making import (
    from_arrow,
    from_data_stream,
    from_dict,
    from_pandas,
    from_records,
    range,
    read_parquet,
)
from penstock.dataframe.over import OverDataFrame
from penstock.dataframe.reading import read_csv, read_from, read_json, read_kafka
from penstock.dataframe.window_groups import WindowGroups
from penstock.dataframe.windowed import GroupedDataFrame, WindowedDataFrame
from penstock.dataframe.windows import Cumulate, Session, Slide, Tumble
from penstock.expressions.face import count

__all__ = [
    "Cumulate",
    "DataFrame",
    "Expression",
    "GroupedDataFrame",
    "OverDataFrame",
    "Session",
    "Slide",
    "Tumble",
    "WindowGroups",
    "WindowedDataFrame",
    "call",
    "coalesce",
    "col",
    "count",
    "from_arrow",
    "from_data_stream",
    "from_dataframe",
    "from_dict",
    "from_pandas",
    "from_polars",
    "from_records",
    "if_then_else",
    "lit",
    "range",
    "read_csv",
    "read_from",
    "read_json",
    "read_kafka",
    "read_parquet",
    "udf",
    "when",
]

shown_in(
    __name__,
    ["DataFrame", "GroupedDataFrame", "OverDataFrame", "WindowGroups", "WindowedDataFrame"],
    never_stored=True,
)
