"""Puts the parts of a job together and sets them going."""

from __future__ import annotations

import random

import penstock
from penstock.coordinator.assemble import Assembled
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.driver import JobDriver
from penstock.coordinator.driver_signature import this_driver
from penstock.coordinator.event_loop import EventLoop, ThreadQueue, thread_lanes
from penstock.coordinator.job_storage import JobStorage, StorageOptions
from penstock.coordinator.ports import Cluster, DriverPorts
from penstock.coordinator.request_futures import ClientFutures
from penstock.coordinator.resuming import tell_if_left
from penstock.coordinator.running_job import JobResult, RunningJob, StreamingJob
from penstock.core import options
from penstock.core.clock import Clock
from penstock.snapshot.repository import first_generation
from penstock.snapshot.store import open_store


def start(job: Assembled, cluster: Cluster, clock: Clock, versions: dict[str, str]) -> StreamingJob:
    """Start a job in STREAMING mode; returns at once."""
    versions = {"penstock": penstock.__version__, **versions}
    coordinator = Coordinator(
        job.plan, job.plan_bytes, job.job_id.hex, job.settings, random.Random(), versions
    )
    job.repository.first_generation = first_generation(clock.now_ms())
    events = ThreadQueue()
    lanes = thread_lanes(events.post, job.plan.job_name)
    assert job.planner is not None
    storage = _storage(job, clock)
    ports = DriverPorts(clock, cluster, events, lanes, storage, ClientFutures(), job.planner)
    result = JobResult(job, clock)
    settings = job.settings
    driver = JobDriver(job.plan, coordinator, ports, result.resolve, settings.late_ms, settings.scaling)
    running = StreamingJob(job, result, driver, coordinator)
    EventLoop(driver, events, clock).start()
    announce(running)
    return running


def _storage(job: Assembled, clock: Clock) -> JobStorage:
    settings = job.settings
    savepoints = job.configuration.get(options.SAVEPOINT_DIR)
    kept = StorageOptions(settings.retained, settings.allow_non_restored, settings.claim, savepoints)
    name = this_driver(clock)
    return JobStorage(job.plan, job.job_id.hex, job.repository, clock, open_store, kept, job.initial, name)


def announce(running: RunningJob) -> None:
    """Make a job known that was just started."""
    tell_if_left(running)
    running.job.started_by.on_start(running)
