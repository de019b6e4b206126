"""Does Spark have what a worker group needs?  Asked before it is started, answered in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.resource import ResourceProfile
from pyspark.sql import SparkSession

from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, SparkLostError
from penstock.core.news import news
from penstock.spark.masters import is_here, is_in_driver
from penstock.spark.told import is_on, told

_log = log_of(__name__)
_TELL_EVERY_S = 10.0
"""How often whoever waits hears that slots are still missing."""


class WaitingForSlots:
    """Says now and then how many slots of an attempt have started, until all have or it is over."""

    def __init__(self, wanted: int, timeout_s: float) -> None:
        self._wanted = wanted
        self._timeout_s = timeout_s
        self._there: set[int] = set()
        self._settled = threading.Event()
        if wanted:
            threading.Thread(target=self._tell, daemon=True, name="penstock-waiting").start()

    def registered(self, slot: int) -> None:
        """A slot is there."""
        self._there.add(slot)
        if len(self._there) >= self._wanted:
            self._settled.set()

    def over(self) -> None:
        """Nobody waits any more."""
        self._settled.set()

    def _tell(self) -> None:
        waited = 0.0
        while not self._settled.wait(_TELL_EVERY_S):
            waited += _TELL_EVERY_S
            _tell_waiting("slots of the job", len(self._there), self._wanted, waited, self._timeout_s)


def _tell_waiting(what: str, there: int, wanted: int, waited_s: float, timeout_s: float) -> None:
    _log.warning(
        "waiting for %s: %d of %d are there after %.0f s, of the %g s of penstock.slots.timeout",
        what,
        there,
        wanted,
        waited_s,
        timeout_s,
    )


def check_cluster(spark: SparkSession) -> None:
    """Refuse settings that barrier stages cannot live with."""
    if _may_grow(spark):
        raise ClusterError(
            "Spark's dynamic allocation is switched on, and long-lived slots cannot use it; set "
            "spark.dynamicAllocation.enabled=false and a fixed number of executors",
            code=Code.DYNAMIC_ALLOCATION,
        )


def _may_grow(spark: SparkSession) -> bool:
    return is_on(spark, "spark.dynamicAllocation.enabled")


def most_slots(spark: SparkSession, beside: int, profile: ResourceProfile | None) -> int | None:
    """How many slots a job can have that leaves ``beside`` free; ``None`` if Spark may get more cores."""
    return None if _may_grow(spark) else available_slots(spark, profile) - beside


def check_alive(spark: SparkSession) -> None:
    """Refuse a session whose JVM or context is gone."""
    try:
        stopped = bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception as error:
        raise SparkLostError(
            f"the JVM of the Spark session is gone ({type(error).__name__}: {error}). The job's checkpoints "
            "are kept: start the program again, and it goes on"
        ) from error
    if stopped:
        raise SparkLostError(
            "the Spark session was stopped while the job ran. The job's checkpoints are kept: start the "
            "program again, and it goes on"
        )


def available_slots(spark: SparkSession, profile: ResourceProfile | None = None) -> int:
    """Tasks, of that profile, that the session's executors can run at once."""
    scala = spark.sparkContext._jsc.sc()
    known = None if profile is None else profile._java_resource_profile
    return int(scala.maxNumConcurrentTasks(known or scala.resourceProfileManager().defaultResourceProfile()))


def slots_to_begin_with(spark: SparkSession, wanted: int, least: int | None) -> int:
    """How many slots must be there before a job is started: fewer, if it may go on with ``least``.

    Whoever starts it hears at once of what will never be there: ``local[N]`` has what it has.
    """
    return wanted if least is None or is_in_driver(spark.sparkContext.master) else min(least, wanted)


def check_slots(
    spark: SparkSession,
    wanted: int,
    timeout_s: float,
    clock: Clock,
    given_up: Callable[[], bool],
    profile: ResourceProfile | None = None,
) -> None:
    """Wait until enough executors are there, or say that there are too few, or that nobody wants them now."""
    began = clock.monotonic()
    deadline, told = began + timeout_s, began
    said = False
    while True:
        if given_up():
            raise ClusterError(f"the start was given up while {wanted} slots were waited for")
        there = available_slots(spark, profile)
        if there >= wanted:
            return
        check_alive(spark)  # one that was stopped has no slots, either, and never will
        local = is_in_driver(spark.sparkContext.master)
        if local or clock.monotonic() >= deadline:
            if not there:
                raise SparkLostError(
                    f"Spark ({spark.sparkContext.master}) has had no executor for {timeout_s:g} s, and the "
                    f"job needs {wanted} slots. Start the program again when there are some, or wait "
                    "longer for them with penstock.slots.timeout"
                )
            waited = "" if local else f", {timeout_s:g} s (penstock.slots.timeout) after the job was started"
            raise ClusterError(
                f"the job needs {wanted} slots and Spark ({spark.sparkContext.master}) has {there}{waited}; "
                f"lower the parallelism to {max(there, 1)} or give Spark more cores"
                + _as_master(local, wanted),
                code=Code.TOO_FEW_SLOTS,
            )
        if not said:
            said = True
            news.info(
                "waiting for executors: the job needs %d slots, Spark (%s) has %d; up to %g s",
                *(wanted, spark.sparkContext.master, there, timeout_s),
            )
        if clock.monotonic() - told >= _TELL_EVERY_S:
            told = clock.monotonic()
            _tell_waiting("Spark's executors", there, wanted, told - began, timeout_s)
        threading.Event().wait(0.1)


def _as_master(local: bool, wanted: int) -> str:
    return f" (penstock.spark.master=local[{wanted}], if Penstock starts it)" if local else ""


def is_one_machine(spark: SparkSession) -> bool:
    """Whether all executors run here."""
    return is_here(spark.sparkContext.master)


def driver_host(spark: SparkSession) -> str:
    """The address executors reach the driver at; loopback if they are all here."""
    if is_one_machine(spark):
        return "127.0.0.1"
    return told(spark, "spark.driver.host", "127.0.0.1")
