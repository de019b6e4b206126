"""Program: more slots than cores, and steps that nobody reads, in a session that Penstock starts by itself.

laptop.py DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from progress import until
from pyspark.sql import SparkSession

from penstock.common import JobStatus, WatermarkStrategy
from penstock.core.errors import ClusterError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.spark.slots import available_slots


def note(file: Path) -> Callable[[Any], Any]:
    """Writes what it is called with to a file."""

    def noted(value: Any) -> Any:
        with file.open("a") as lines:
            lines.write(f"{value}\n")
        return value

    return noted


def unread(mode: RuntimeExecutionMode, work: Path) -> None:
    """Two steps beside a sink: in its task, and in one of their own. In BATCH mode also one alone."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode).set_parallelism(2)
    if mode is RuntimeExecutionMode.BATCH:
        env.from_collection([1, 2, 3]).map(note(work / "alone BATCH"))
        env.execute("alone")
    numbers = env.from_collection([1, 2, 3])
    numbers.map(note(work / f"beside {mode.name}"))
    numbers.key_by(lambda number: number).map(note(work / f"apart {mode.name}"))
    numbers.print()
    env.execute(f"beside {mode.name}")


def beside_each_other() -> None:
    """Two jobs at once, each with more slots than there are cores; a third wants too many."""
    env = StreamExecutionEnvironment.get_execution_environment()
    print(f"cores {env.get_parallelism()}, slots {available_slots(SparkSession.active())}", flush=True)
    env.set_parallelism(2)
    endless = DataGeneratorSource(lambda index: index, None, 100.0)
    env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless").map(lambda number: number)
    first = env.execute_async("first")
    until(lambda: first.get_job_status().result() is JobStatus.RUNNING, "the first job has its slots")
    env.from_collection(range(2)).rebalance().map(lambda number: number).print()
    env.execute("second")
    print(f"first: {first.get_job_status().result().name}", flush=True)
    first.cancel().result()
    env.set_parallelism(1000)
    env.from_collection([1]).rebalance().print()
    try:
        env.execute("third")
    except ClusterError as error:
        print(f"refused: {error}", flush=True)


if __name__ == "__main__":
    beside_each_other()
    for wanted in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        unread(wanted, Path(sys.argv[1]))
