"""A table in, a table kept up to date: both are Spark DataFrames, the sums between them are a stream.

The table of orders is read as it is when the job begins.  The totals of every checkpoint are written to a
folder named after it, so that a repeated call, after a crash, writes the same rows to the same place.

python frames_totals.py [FOLDER]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, timestamp_seconds
from pyspark.sql.functions import sum as total_of

from penstock.columns import Count, Sum
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

ORDERS = 10_000


def orders(spark: SparkSession) -> DataFrame:
    """A table for a first try: an order every ten seconds, in no order of time."""
    number = col("id")
    return spark.range(ORDERS).select(
        (number % 7).alias("customer"),
        (number % 50).cast("double").alias("amount"),
        timestamp_seconds((number * 7919 % ORDERS) * 10).alias("ordered_at"),
    )


def totals(env: StreamExecutionEnvironment, table: DataFrame) -> DataStream:
    """Orders and their sum, by customer and hour."""
    stream = env.from_dataframe(table, time_column="ordered_at", source_name="orders").uid("orders")
    hours = stream.key_by("customer").window(TumblingEventTimeWindows.of("1 h"))
    return hours.agg(Count("orders"), Sum("amount", "total")).uid("totals")


def keep_in(folder: str) -> Any:
    """What is done with each epoch: idempotent, since its number is the name of the place."""

    def write(frame: DataFrame, epoch: int) -> None:
        frame.write.mode("overwrite").parquet(f"{folder}/epoch={epoch}")

    return write


if __name__ == "__main__":
    target = str(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="totals-")).absolute())
    print(f"totals are in {target}")
    # The session is the program's own: without a word Spark's workers would run the python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[3]").getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2).enable_checkpointing(1000)
    totals(env, orders(session)).for_each_epoch(keep_in(target)).uid("out")
    env.execute("totals")
    session.read.parquet(target).groupBy("customer").agg(total_of("orders"), total_of("total")).show()
