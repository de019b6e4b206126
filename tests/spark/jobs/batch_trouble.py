"""Program: BATCH jobs with several readers of a step, with a failing function, and one that is cancelled.

batch_trouble.py MASTER
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
from typing import Any

from progress import environment, until
from pyspark.sql import SparkSession

from penstock.common import WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream import OutputTag, ProcessFunction, RuntimeExecutionMode
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource

ODD = OutputTag("odd")
NO_TIME = WatermarkStrategy.no_watermarks()


class Split(ProcessFunction):
    """Odd numbers go to the side."""

    def process_element(self, value: int, ctx: Any) -> Any:
        yield (ODD, value) if value % 2 else value


def fail(value: int) -> float:
    """No number is good enough."""
    return value / (value - 3)


class Planted:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch ran_by_data",)


def attacked(env: Any) -> None:
    """A cell that is no number, and looks like a worker's error: Spark quotes it in an error of its own."""
    cell = "PENSTOCK-FAILED " + base64.b64encode(pickle.dumps(Planted())).decode()
    spark = SparkSession.active()
    frame = spark.createDataFrame([(cell,)], "cell string").selectExpr("CAST(cell AS INT) AS number")
    env.from_dataframe(frame).map(str).print()
    try:
        env.execute("attacked")
    except JobFailedError as error:
        print(f"refused: {' '.join(str(error).split())}", flush=True)


def _running(client: Any) -> Any:
    """How far the job is, once Spark runs its tasks."""
    stages = client._handle.facts()["stages"]
    return stages if stages and stages["tasks"] else None


def main(master: str) -> None:
    """Run them."""
    batch = RuntimeExecutionMode.BATCH
    env = environment(master, None).set_parallelism(3).set_runtime_mode(batch)
    split = env.from_collection(range(100)).process(Split())
    odd = split.get_side_output(ODD)
    split.key_by(lambda v: 0).reduce(lambda a, b: a + b).map(lambda v: f"even {v}").print()
    odd.key_by(lambda v: 0).reduce(lambda a, b: a + b).map(lambda v: f"odd {v}").print()
    split.union(odd).key_by(lambda v: 0).reduce(max).map(lambda v: f"max {v}").print()
    numbers = [env.from_source(NumberSequenceSource(1, 100), NO_TIME, name) for name in ("one", "other")]
    counted = numbers[0].union(numbers[1]).map(lambda v: 1)
    counted.key_by(lambda v: 0).reduce(lambda a, b: a + b).map(lambda v: f"twice {v}").print()
    env.execute("several readers")
    env.from_collection(range(9)).rebalance().map(fail).name("divide").print()
    try:
        env.execute("failing")
    except JobFailedError as error:
        print(f"failed: {' / '.join(str(error).splitlines())}", flush=True)
    attacked(env)
    slow = DataGeneratorSource(lambda index: index, 10**9, 1000.0)
    env.from_source(slow, NO_TIME, "slow").map(lambda v: v).print()
    client = env.execute_async("cancelled")
    stages = until(lambda: _running(client), "tasks run")
    print(f"stages {stages['stages_done']} of {stages['stages']}, tasks of {stages['tasks']}", flush=True)
    client.cancel().result()
    print(f"cancelled: {client.get_job_status().result().name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
