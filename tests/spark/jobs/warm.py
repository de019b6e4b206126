"""Program: a little of everything that tests do on Spark, so that its classes have been loaded."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.common import Configuration
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def count(mode: RuntimeExecutionMode) -> int:
    """Run a job with an exchange."""
    settings = {"penstock.spark.master": "local[2]", "penstock.slots.timeout": "600 s"}
    config = Configuration.from_dict(settings)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_runtime_mode(mode)
    numbers = env.from_collection(list(range(10))).key_by(lambda number: number % 2)
    return len(list(numbers.reduce(lambda a, b: a + b).execute_and_collect()))


if __name__ == "__main__":
    assert count(RuntimeExecutionMode.STREAMING) == 10
    assert count(RuntimeExecutionMode.BATCH) == 2
    spark = SparkSession.active()
    spark.range(10).groupBy("id").count().collect()
    spark.stop()
    # The JVM writes the archive when it ends, which takes a busy machine longer than programs wait for it.
    java = SparkContext._gateway.proc
    java.stdin.close()
    java.wait()
