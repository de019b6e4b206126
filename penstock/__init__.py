"""Penstock: stateful stream processing in Python, on Spark.

Programs are written with the names of PyFlink's DataStream API.  What they import:

* ``penstock.datastream``: the environment, streams, functions, checkpoints; below it ``window`` (assigners,
  triggers, evictors), ``state`` (descriptors and handles), ``functions``, ``enrichment`` (joins with tables),
  ``connectors`` and ``formats``, a module for each;
* ``penstock.common``: settings, types, rows, time, watermark strategies, jobs;
* ``penstock.columns``: aggregates and expressions over named columns;
* ``penstock.dataframe``: streams as DataFrames;
* ``penstock.sql``: statements over them; ``penstock.table``: the same by the names of PyFlink's Table API;
* ``penstock.cep``: patterns;
* ``penstock.state_processor``: snapshots as tables, and savepoints written from them;
* ``penstock.metrics``: metrics of one's own;
* ``penstock.testing``: programs without Spark, in virtual time, under faults; suites for connectors.

All that is loaded when it is first used.  The other packages are the engine: internal, and changed without
notice.  Begin with ``help(penstock.datastream.StreamExecutionEnvironment)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import found_in
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock import (
        cep,
        columns,
        common,
        dataframe,
        datastream,
        metrics,
        sql,
        state_processor,
        table,
        testing,
    )

__all__ = [
    "__version__",
    "cep",
    "columns",
    "common",
    "dataframe",
    "datastream",
    "metrics",
    "sql",
    "state_processor",
    "table",
    "testing",
]

if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    __getattr__ = found_in(__name__, {}, below=" ".join(__all__[1:]))


def __dir__() -> list[str]:
    return __all__
