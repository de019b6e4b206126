"""What a session of Spark was told.

One setting is asked in one call: PySpark's ``getConf()`` copies all settings, each in a call of its own to
the JVM and back, which took a job's start a tenth of a second.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def told(spark: SparkSession, key: str, default: str) -> str:
    """A setting of the session's application, or ``default``."""
    return str(spark.sparkContext._jsc.sc().conf().get(key, default))


def is_on(spark: SparkSession, key: str) -> bool:
    """Whether a switch, off unless told, is on."""
    return told(spark, key, "false").lower() == "true"
