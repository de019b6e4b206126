"""What workers are forked with: imported once, by their daemon (:mod:`penstock.spark.daemon`)."""

from __future__ import annotations

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

PRELOADED = (pandas, pyarrow, pyspark, penstock)
"""PySpark imports its worker behind the fork because of pandas and pyarrow, which are here before anyway."""
