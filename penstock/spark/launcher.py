"""``env.execute()`` on Spark: the session, the shipping of code, and the start of the job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from penstock.coordinator.assemble import RunningJob, assemble, start
from penstock.coordinator.events import RequestKind
from penstock.coordinator.registry import register
from penstock.core import options
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.graph.job import JobSpec
from penstock.spark.cluster import SparkCluster
from penstock.spark.shipping import ship
from penstock.spark.slots import available_slots, check_cluster, check_slots


class SparkLauncher:
    """Runs jobs in the active Spark session, or in one started for them."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def session(self) -> SparkSession:
        """The active session, or a new one."""
        active = SparkSession.getActiveSession()
        return active if active is not None else start_session(self._configuration)

    def default_parallelism(self) -> int:
        """As many slots as Spark has."""
        return max(1, available_slots(self.session()))

    def launch(self, spec: JobSpec) -> RunningJob:
        """Start a job; returns at once."""
        spark = self.session()
        check_cluster(spark)
        job = assemble(spec, self.default_parallelism())
        clock = SystemClock()
        check_slots(spark, job.plan.slots, job.settings.slots_timeout_ms / 1000, clock)
        ship(spark, spec.python_files + _listed(spec.configuration.get(options.PYTHON_FILES)))
        cluster = SparkCluster(spark, job, clock)
        running = start(job, cluster, clock, {"spark": pyspark.__version__})
        publish_to_registry(running)
        return running


def publish_to_registry(running: RunningJob) -> None:
    """Let ``penstock list``, ``cancel``, ``savepoint`` and ``stop`` find the job until it ends."""
    registration = register(
        running.job_id.hex,
        running.job.plan.job_name,
        running.facts,
        running.cancel,
        lambda kind, directory: running.request(RequestKind(kind), directory),
    )
    if registration is not None:
        running.listeners.append(lambda _: registration.close())
        running.result().add_done_callback(lambda _: registration.close())


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def start_session(configuration: Configuration) -> SparkSession:
    """A quiet Spark session for a program that did not bring one."""
    os.environ.setdefault("PYSPARK_PYTHON", configuration.get(options.PYTHON_EXECUTABLE) or sys.executable)
    if not any(name in os.environ for name in ("SPARK_CONF_DIR", "SPARK_HOME")):
        os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "conf")
    settings = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    master = configuration.get(options.SPARK_MASTER) or "local[*]"
    if master.startswith("local"):
        # Executors of other machines would look for the driver on their own loopback.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local["):
        settings["spark.python.daemon.module"] = "penstock.spark.daemon"
    settings |= {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    builder = SparkSession.builder.appName("penstock")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.master(master).getOrCreate()
