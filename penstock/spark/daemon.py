"""PySpark's worker daemon with Penstock's imports done, and with an eye on its workers.

Workers are forked from the daemon, so what it has imported they need not import: a slot that is started
again after a failure registers in a fraction of the time, and builds its tasks without importing what the
modules of users' programs do.  And whoever forked a worker can say why it died
(:mod:`penstock.spark.witness`).  Used in sessions that Penstock starts itself
(``spark.python.daemon.module``).
"""

from __future__ import annotations

import runpy

import pandas
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
import pyspark.worker

import penstock.common.types
import penstock.common.watermark_strategy
import penstock.connectors.files.parquet
import penstock.datastream.async_data_stream
import penstock.datastream.connectors.file_system
import penstock.datastream.data_stream
import penstock.datastream.functions
import penstock.datastream.state
import penstock.datastream.stream_execution_environment
import penstock.datastream.window
import penstock.luggage.arrival
import penstock.operators.columnar.window_agg
import penstock.spark.worker
from penstock.spark import witness

PRELOADED = (pandas, pyarrow, pyspark, penstock)
"""PySpark imports its worker behind the fork because of pandas and pyarrow, which are here before anyway."""

if __name__ == "__main__":
    witness.install()
    runpy.run_module("pyspark.daemon", run_name="__main__")
