"""On what terms Spark runs the slots of a job: what each takes of its executor, and in which pool.

A profile of tasks alone: executors are those that the session has, and a slot runs on any that has room for
it.  Spark has such profiles on real clusters only.  The pool is that of the thread that starts the job, as
with any of Spark's jobs; the threads that run it would not inherit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from penstock.core.config import Configuration
from penstock.core.errors import ClusterError, ConfigError
from penstock.core.slot_options import SLOT_CPUS, SLOT_RESOURCES
from penstock.spark.failures import gist, root_cause
from penstock.spark.masters import is_in_driver
from penstock.spark.told import told

_POOL = "spark.scheduler.pool"
_Key = tuple[str, float, tuple[tuple[str, float], ...]]
_profiles: dict[_Key, ResourceProfile] = {}
"""By application and what is in them: Spark keeps each for as long as it runs."""


@dataclass(frozen=True, slots=True)
class SlotTerms:
    """Of one job."""

    profile: ResourceProfile | None = None
    """``None`` takes what any task takes."""
    pool: str | None = None
    """Of Spark's fair scheduler; ``None`` is its default one."""

    @classmethod
    def of(cls, spark: SparkSession, configuration: Configuration) -> SlotTerms:
        """As the settings and this thread have them."""
        return cls(slot_profile(spark, configuration), pool_here(spark))


def pool_here(spark: SparkSession) -> str | None:
    """The pool of what this thread starts."""
    pool: str | None = spark.sparkContext.getLocalProperty(_POOL)
    return pool


def use_pool(context: Any, pool: str | None) -> None:
    """What this thread, which is new, starts from here on runs in the pool."""
    if pool is not None:
        context.setLocalProperty(_POOL, pool)


def slot_profile(spark: SparkSession, configuration: Configuration) -> ResourceProfile | None:
    """What the settings say that a slot takes; ``None`` if they say nothing."""
    cpus, wanted = configuration.get(SLOT_CPUS), configuration.get_map(SLOT_RESOURCES)
    if cpus is None and not wanted:
        return None
    context = spark.sparkContext
    if is_in_driver(context.master):
        raise ClusterError(
            f"{SLOT_CPUS.key} and {SLOT_RESOURCES.key} are for slots on a standalone cluster, YARN or "
            f"Kubernetes; Spark's {context.master} does not know how much a task takes: leave them out"
        )
    cores = cpus or float(told(spark, "spark.task.cpus", "1"))
    amounts = tuple(sorted((name, _amount(name, text)) for name, text in wanted.items()))
    key = context.applicationId, cores, amounts
    if key not in _profiles:
        _profiles[key] = _made(spark, int(cores) if cores == int(cores) else cores, amounts)
    return _profiles[key]


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not (0 < amount <= 1 or (amount > 1 and amount.is_integer())):
        raise ConfigError(
            f"{SLOT_RESOURCES.key}: {name}:{text} will not do: it is a whole number, or a share of one"
        )
    return amount


def _made(spark: SparkSession, cores: float, amounts: tuple[tuple[str, float], ...]) -> ResourceProfile:
    requests = TaskResourceRequests().cpus(cores)  # older versions of Spark take whole ones only
    for name, amount in amounts:
        requests.resource(name, amount)
    try:
        profile = ResourceProfileBuilder().require(requests).build
        spark.sparkContext._jsc.sc().resourceProfileManager().addResourceProfile(
            profile._java_resource_profile
        )
    except Exception as error:
        raise ClusterError(
            f"Spark cannot give each slot what {SLOT_CPUS.key} and {SLOT_RESOURCES.key} say: "
            f"{gist(root_cause(str(error)))}"
        ) from error
    return profile
