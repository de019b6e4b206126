"""Starts a counting job from counts that somebody else has kept so far: here, a Spark DataFrame.

python bootstrap.py [DIRECTORY]

Writes a savepoint below DIRECTORY, or in a new place, looks into it, and runs the job from there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from shop import working_directory

from penstock.common import Configuration, Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.state_processor import SavepointWriter, open_snapshot

VISITS = ValueStateDescriptor("visits", Types.LONG())


class CountVisits(KeyedProcessFunction):
    """Counts the visits of each user."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visits = runtime_context.get_state(VISITS)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        visits = (self.visits.value() or 0) + 1
        self.visits.update(visits)
        yield f"{value}: {visits}"


def make_savepoint(history: DataFrame, directory: str) -> str:
    """The counts so far, as the state of the step with the uid ``visits``."""
    rows = history.groupBy("user").count().selectExpr("user AS key", "count AS value")
    return SavepointWriter.new().with_operator("visits", {VISITS: rows}).write(directory)


def run(savepoint: str, users: list[str]) -> list[str]:
    """Count on from the savepoint."""
    config = Configuration.from_dict({"execution.savepoint.path": savepoint})
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    stream = env.from_collection(users).key_by(lambda user: user)
    results = stream.process(CountVisits()).uid("visits").execute_and_collect("visits")
    return sorted(results)


if __name__ == "__main__":
    # The session is the program's own: without a word Spark's workers would run the python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    history = spark.createDataFrame([("ann",), ("bob",), ("ann",)], "user string")
    savepoint = make_savepoint(history, str(working_directory() / "savepoint"))
    open_snapshot(savepoint).spark(spark, operator="visits", state="visits").show()
    print("\n".join(run(savepoint, ["ann", "cy"])))
