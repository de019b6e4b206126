"""Program: jobs on a standalone cluster of two workers, one of which goes.

    cluster.py MASTER WORK

A keyed job; one that prints ``running`` and is cancelled when it waits for an executor that was lost; and one
that has enough with what is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, RATE, TIMEOUT_S, environment, published, until
from pyspark.sql import SparkSession

from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.slots import available_slots

SETTINGS = {
    "spark__cores__max": "2",
    "spark__executor__cores": "1",
    "spark__executor__memory": "512m",
    "spark__driver__host": "127.0.0.1",
}


def keyed(master: str, work: Path, parallelism: int, pace: Pace) -> StreamExecutionEnvironment:
    """The program."""
    env = environment(master, work / "chk", **SETTINGS).set_parallelism(parallelism)
    GRAPHS["keyed"][0](env, lambda: SINKS["log"][0](work / "keyed"), COUNT, pace)
    return env


def cancelled_while_it_waits(master: str, work: Path) -> None:
    """Spark has one executor left, and the job needs two."""
    client = keyed(master, work / "cancelled", 2, Pace(RATE, work / "never")).execute_async("cancelled")
    job, spark = client._handle, SparkSession.getActiveSession()
    until(lambda: published(job) >= 1, "the job runs")
    print("running", flush=True)
    until(lambda: job.driver.restarts and available_slots(spark) == 1, "an executor is lost")
    client.cancel().result(TIMEOUT_S)
    print(f"ended {job.status().name}", flush=True)


def main(master: str, work: Path) -> None:
    """Run them."""
    keyed(master, work, 2, Pace()).execute("on a cluster")
    cancelled_while_it_waits(master, work)
    keyed(master, work / "left", 1, Pace()).execute("on what is left")
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
