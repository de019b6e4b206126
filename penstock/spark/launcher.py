"""``env.execute()`` on Spark: the session, the shipping of code, and the start of the job."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyspark
from pyspark.sql import SparkSession

from penstock.batch.job import start_batch
from penstock.connectors.builtin.driver_output import CollectSink
from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.registry import register
from penstock.coordinator.running_job import RunningJob
from penstock.coordinator.start import start
from penstock.core import interrupts
from penstock.core.clock import Clock, SystemClock
from penstock.core.config import Configuration
from penstock.graph.nodes import JobSpec
from penstock.rest.archiving import archive_at_end
from penstock.rest.serving import serve
from penstock.rest.traces import trace
from penstock.spark.batch.stages import SparkStages
from penstock.spark.cluster import SparkCluster
from penstock.spark.description import Description
from penstock.spark.epoch_frames import check_room, needs_room
from penstock.spark.frame_source import FrameSource
from penstock.spark.session import asked_slots, cores_of, refuse_connect, start_session
from penstock.spark.shipping import ship
from penstock.spark.slots import available_slots, check_cluster, check_slots, slots_to_begin_with
from penstock.spark.terms import SlotTerms, pool_here, slot_profile

_PREPARING_MS = 600_000


class SparkLauncher:
    """Runs jobs in the active Spark session, or in one started for them."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def session(self, asked: int = 0) -> SparkSession:
        """The active session, or a new one for a job that asks for so many slots."""
        refuse_connect()
        active = SparkSession.getActiveSession()
        return active if active is not None else start_session(self._configuration, asked)

    def default_parallelism(self) -> int:
        """As many slots as Spark has, or as there are cores where it has more slots than these."""
        spark = self.session()
        return cores_of(spark) or max(1, available_slots(spark, slot_profile(spark, self._configuration)))

    def launch(self, spec: JobSpec) -> RunningJob:
        """Start a job; returns at once."""
        spark = self.session(asked_slots(spec.nodes, spec.parallelism))
        beside = needs_room(spec.nodes)
        reserved = 0 if cores_of(spark) else beside
        job = _with_patience(assemble(spec, max(1, self.default_parallelism() - reserved)), spec)
        clock, description = SystemClock(), Description(job.plan.job_name)
        if job.plan.settings.batch:
            running = self._start_batch(spark, spec, job, clock, description)
        else:
            running = self._start_streaming(spark, spec, job, clock, beside, description)
        publish_to_registry(running)
        description.page_is(running.page_url)
        for node in spec.nodes:
            if isinstance(node.source, FrameSource):
                _release_at_the_end(node.source, running)
        return running

    def _start_streaming(
        self,
        spark: SparkSession,
        spec: JobSpec,
        job: Assembled,
        clock: Clock,
        beside: int,
        description: Description,
    ) -> RunningJob:
        """All slots at once, for as long as the job runs."""
        check_cluster(spark)
        for node in spec.nodes:
            if isinstance(node.source, FrameSource):
                node.source.home()  # an error now if there is none, not when the job runs
        timeout_s, elastic = job.settings.slots_timeout_ms / 1000, job.settings.elastic
        needed = slots_to_begin_with(spark, job.plan.slots, elastic.least if elastic else None)
        terms = SlotTerms.of(spark, spec.configuration)
        check_slots(spark, needed, timeout_s, clock, interrupts.pending, terms.profile)
        if beside:
            check_room(spark, job.plan.slots, terms.profile)
        shipment = ship(spark, spec.python)
        cluster = SparkCluster(spark, job, clock, shipment, description, beside, terms)
        return start(job, cluster, clock, {"spark": pyspark.__version__})

    def _start_batch(
        self, spark: SparkSession, spec: JobSpec, job: Assembled, clock: Clock, description: Description
    ) -> RunningJob:
        """No slots of its own: its tasks wait for executors as those of any Spark job."""
        shipment = ship(spark, spec.python)
        group = f"penstock-{job.directory}-{uuid.uuid4().hex[:8]}"
        return start_batch(job, clock, SparkStages(spark, description, group, shipment, pool_here(spark)))


def _with_patience(job: Assembled, spec: JobSpec) -> Assembled:
    """Slots that have to unpack or install something first may take their time."""
    if not spec.python.archives and spec.python.requirements is None:
        return job
    patience = job.settings.slots_timeout_ms + _PREPARING_MS
    return replace(job, settings=replace(job.settings, slots_timeout_ms=patience))


def _release_at_the_end(source: FrameSource, running: RunningJob) -> None:
    """Before whoever waits for the job goes on; and also if it was over before this was called."""
    running.listeners.append(lambda status: source.job_ended(status, running.savepoints_asked))
    running.result().add_done_callback(lambda _: source.job_ended(running.status(), running.savepoints_asked))


def _leaves_something(job: Assembled) -> bool:
    """Not so a job whose results come here and which keeps no checkpoints: two queries at once do no harm."""
    sinks = [planned.node.sink for _, planned in job.plan.operators() if planned.node.sink is not None]
    return job.store_url is not None or not all(isinstance(sink, CollectSink) for sink in sinks)


def publish_to_registry(running: RunningJob) -> None:
    """Let ``penstock list``, ``cancel``, ``savepoint``, ``stop`` and ``ui`` find the job until it ends."""
    job = running.job
    command, leaves_something = job.started_by.command, _leaves_something(job)
    registration = register(running.job_id.hex, job.plan.job_name, command, leaves_something=leaves_something)
    serving = serve(running, registration=registration)
    archive_at_end(running, None if serving is None else serving.look)
    traces = trace(running)
    if traces is not None:
        running.listeners.append(lambda _: traces.close())
        running.result().add_done_callback(lambda _: traces.close())
    if serving is None:
        return
    if serving.url:
        running.page, running.page_url = serving.link, serving.url
    running.listeners.append(lambda _: serving.close())
    running.result().add_done_callback(lambda _: serving.close())
