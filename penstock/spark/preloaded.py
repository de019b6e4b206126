"""What workers are forked with: imported once, by their daemon (:mod:`penstock.spark.daemon`)."""

from __future__ import annotations

import pandas
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

import penstock.common.types
import penstock.connectors.files.parquet
import penstock.datastream.connectors.file_system
import penstock.datastream.functions
import penstock.datastream.state
import penstock.datastream.stream_execution_environment
import penstock.datastream.window
import penstock.operators.columnar.window_agg
import penstock.spark.worker

PRELOADED = (pandas, pyarrow, penstock)
