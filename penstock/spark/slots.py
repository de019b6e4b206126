"""Does Spark have what a gang needs?  Asked before it is started, answered in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from penstock.core.clock import Clock
from penstock.core.errors import ClusterError


def check_cluster(spark: SparkSession) -> None:
    """Refuse settings that barrier stages cannot live with."""
    if _may_grow(spark):
        raise ClusterError(
            "Spark's dynamic allocation is switched on, and a gang of long-lived slots cannot use it; set "
            "spark.dynamicAllocation.enabled=false and a fixed number of executors"
        )


def _may_grow(spark: SparkSession) -> bool:
    setting = spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false")
    return str(setting).lower() == "true"


def most_slots(spark: SparkSession, beside: int) -> int | None:
    """How many slots a job can have that leaves ``beside`` free; ``None`` if Spark may get more cores."""
    return None if _may_grow(spark) else available_slots(spark) - beside


def available_slots(spark: SparkSession) -> int:
    """Tasks that the session's executors can run at once."""
    scala = spark.sparkContext._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def check_slots(
    spark: SparkSession, wanted: int, timeout_s: float, clock: Clock, given_up: Callable[[], bool]
) -> None:
    """Wait until enough executors are there, or say that there are too few, or that nobody wants them now."""
    deadline = clock.monotonic() + timeout_s
    while True:
        if given_up():
            raise ClusterError(f"the start was given up while {wanted} slots were waited for")
        there = available_slots(spark)
        if there >= wanted:
            return
        local = spark.sparkContext.master.startswith("local[")
        if local or clock.monotonic() >= deadline:
            raise ClusterError(
                f"the job needs {wanted} slots and Spark ({spark.sparkContext.master}) has {there}; lower "
                f"the parallelism to {max(there, 1)} or give Spark more cores"
            )
        threading.Event().wait(0.1)


def is_one_machine(spark: SparkSession) -> bool:
    """Whether all executors run here."""
    return str(spark.sparkContext.master).startswith("local")


def driver_host(spark: SparkSession) -> str:
    """The address executors reach the driver at; loopback if they are all here."""
    if is_one_machine(spark):
        return "127.0.0.1"
    return str(spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
