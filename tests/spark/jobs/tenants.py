"""Program: jobs and Spark's own work in one session, on executors that have a resource.

    tenants.py WORK

Six cores and three chips.  A job in the pool ``streams`` whose slots take two cores and a chip each; ordinary
Spark jobs and a job of plain slots beside it; one that asks for more slots than there is room for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, RATE, environment, published, until
from pyspark import TaskContext
from pyspark.sql import SparkSession

from penstock.core.errors import ClusterError
from penstock.datastream import ProcessFunction

SLOTS = {"penstock__slots__cpus": "2", "penstock__slots__resources__chip": "1"}


class Chips(ProcessFunction):
    """Which of the chips its slot was given."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield TaskContext.get().resources()["chip"].addresses


def session(work: Path) -> SparkSession:
    """One executor."""
    found = work / "chips.sh"
    found.write_text('#!/bin/sh\necho \'{"name": "chip", "addresses": ["a", "b", "c"]}\'\n')
    found.chmod(0o755)
    builder = SparkSession.builder.master("local-cluster[1,6,1024]")
    for place in ("worker", "executor"):
        builder = builder.config(f"spark.{place}.resource.chip.amount", "3")
        builder = builder.config(f"spark.{place}.resource.chip.discoveryScript", str(found))
    builder = builder.config("spark.scheduler.mode", "FAIR").config("spark.executor.memory", "1g")
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def running_in(spark: SparkSession, pool: str) -> int:
    """Tasks of Spark that run in a pool now."""
    known = spark.sparkContext._jsc.sc().getPoolForName(pool)
    return int(known.get().runningTasks()) if known.isDefined() else 0


def keyed(work: Path, parallelism: int, pace: Pace, name: str, **settings: str) -> Any:
    """A job that has begun."""
    env = environment("", work / "chk", **settings).set_parallelism(parallelism)
    GRAPHS["keyed"][0](env, lambda: SINKS["log"][0](work / "keyed"), COUNT, pace)
    return env.execute_async(name)


def main(work: Path) -> None:
    """Run them."""
    spark = session(work)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "streams")
    gated = keyed(work / "gated", 2, Pace(RATE, work / "gate"), "gated", **SLOTS)
    until(lambda: published(gated._handle) >= 1, "the job runs")
    print(f"in pool {running_in(spark, 'streams')}, elsewhere {running_in(spark, 'default')}", flush=True)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)
    print(f"beside {spark.range(1000).selectExpr('sum(id)').first()[0]}", flush=True)
    keyed(work / "plain", 1, Pace(), "plain").get_job_execution_result().result()
    env = environment("", None, **SLOTS)
    print(f"slots {env.get_parallelism()}", flush=True)
    chips = env.set_parallelism(1).from_collection([1]).process(Chips())
    print(f"chips {list(chips.execute_and_collect())}", flush=True)
    try:
        keyed(work / "large", 4, Pace(), "large", **SLOTS, penstock__slots__timeout="1 s")
    except ClusterError as error:
        print(f"refused: {error}", flush=True)
    (work / "gate").touch()
    gated.get_job_execution_result().result()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
