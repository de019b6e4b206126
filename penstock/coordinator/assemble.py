"""From a job's specification to a runner ready to start: plan, settings, storage, coordinator."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

import penstock
from penstock.common.job_execution_result import JobExecutionResult
from penstock.coordinator.cluster import Cluster
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.restore import adopt_max_parallelism
from penstock.coordinator.runner import JobRunner
from penstock.coordinator.settings import JobSettings, Retention
from penstock.core import options
from penstock.core.clock import Clock
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError, GraphError, JobFailedError, PenstockError
from penstock.core.job import JobID, JobStatus
from penstock.core.restart import restart_from_config
from penstock.graph.identity import missing_uids
from penstock.graph.job import JobSpec
from penstock.graph.nodes import Node
from penstock.graph.plan import Plan, PlanOptions, compile_plan
from penstock.snapshot.finding import Found, read_manifest
from penstock.snapshot.memory import MemoryStore
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store

_log = logging.getLogger("penstock")

observers: list[Callable[[RunningJob], None]] = []
"""Called with every job that starts in this process, on the thread that starts it."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A job ready to run."""

    plan: Plan
    plan_bytes: bytes
    settings: JobSettings
    job_id: JobID
    directory: str
    """Name of the job's directory below the checkpoint root."""
    store: SnapshotStore
    initial: Found | None
    configuration: Configuration

    @property
    def store_url(self) -> str | None:
        """Where slots write state files; ``None`` if it travels to the driver's memory."""
        return None if isinstance(self.store, MemoryStore) else self.store.sub(self.directory).url


def assemble(spec: JobSpec, default_parallelism: int) -> Assembled:
    """Compile, check and resolve everything that can be wrong before anything runs."""
    config = spec.configuration
    _refuse_unsupported(config)
    settings = job_settings(config)
    for node in spec.nodes:
        if node.sink is not None:
            node.sink.check()
    choices = PlanOptions(
        spec.parallelism or default_parallelism,
        spec.max_parallelism,
        bool(config.get(options.OPERATOR_CHAINING)),
        int(config.get(options.BUFFER_TIMEOUT)),
    )
    plan = compile_plan(list(spec.nodes), spec.name, choices, _plan_settings(spec, settings))
    _warn_about_uids(plan, config)
    directory = slug(spec.name)
    store = _store(config)
    initial = _initial(config)
    newest = Repository(store, directory).latest_valid(verify=False) or initial
    if newest is not None:
        plan = adopt_max_parallelism(plan, newest.manifest)
    plan_bytes = _pickle_plan(plan)
    return Assembled(plan, plan_bytes, settings, JobID.of_name(spec.name), directory, store, initial, config)


def start(job: Assembled, cluster: Cluster, clock: Clock, versions: dict[str, str]) -> RunningJob:
    """Put the parts together and set them going."""
    rng = random.Random()
    versions = {"penstock": penstock.__version__, **versions}
    coordinator = Coordinator(job.plan, job.plan_bytes, job.job_id.hex, job.settings, rng, versions)
    running = RunningJob(job, clock)
    running.runner = JobRunner(
        job.plan,
        coordinator,
        cluster,
        Repository(job.store, job.directory),
        clock,
        running.ended,
        job.initial,
        job.settings.retained,
        job.settings.allow_non_restored,
    )
    running.coordinator = coordinator
    running.runner.start()
    for observer in observers:
        observer(running)
    return running


class RunningJob:
    """A started job. Implements ``JobHandle``, what a ``JobClient`` steers."""

    runner: JobRunner
    coordinator: Coordinator

    def __init__(self, job: Assembled, clock: Clock) -> None:
        self.job = job
        self._clock = clock
        self._started = clock.monotonic()
        self._result: Future[JobExecutionResult] = Future()
        self._cancelled: Future[None] = Future()
        self.listeners: list[Callable[[JobStatus], None]] = []

    @property
    def job_id(self) -> JobID:
        """Which job it is."""
        return self.job.job_id

    def status(self) -> JobStatus:
        """Where the job is in its life."""
        return self.runner.status

    def facts(self) -> dict[str, Any]:
        """How the job stands, in plain values: what lists and progress lines show."""
        desk = self.coordinator.desk
        history = desk.history[-1:]
        received = [values.get("numRecordsIn", 0) for values in list(self.runner.metrics.values())]
        return {
            "id": self.job_id.hex,
            "name": self.job.plan.job_name,
            "status": self.status().name,
            "restarts": self.runner.restarts,
            "checkpoints": desk.completed,
            "last_checkpoint": history[0] if history else None,
            "records_in": int(sum(received)),
        }

    def cancel(self) -> Future[None]:
        """Stop the job without a snapshot."""
        self.runner.cancel()
        return self._cancelled

    def result(self) -> Future[JobExecutionResult]:
        """Done when the job has; fails if the job did."""
        return self._result

    def trigger_savepoint(self, directory: str | None) -> Future[str]:
        """Not there yet."""
        raise PenstockError("savepoints are not supported yet; retained checkpoints can be restored with -s")

    def stop_with_savepoint(self, drain: bool, directory: str | None) -> Future[str]:
        """Not there yet."""
        raise PenstockError("savepoints are not supported yet; retained checkpoints can be restored with -s")

    def ended(self, status: JobStatus, error: Exception | None) -> None:
        """Called by the runner at the end."""
        runtime = int((self._clock.monotonic() - self._started) * 1000)
        for listener in self.listeners:
            listener(status)
        self._cancelled.set_result(None)
        if status is JobStatus.FINISHED:
            self._result.set_result(JobExecutionResult(self.job_id, runtime))
        elif status is JobStatus.CANCELED:
            self._result.set_exception(JobFailedError(f"job {self.job.plan.job_name!r} was cancelled"))
        else:
            failure = JobFailedError(f"job {self.job.plan.job_name!r} failed: {error}")
            failure.cause = error
            self._result.set_exception(failure)


def slug(name: str) -> str:
    """A job's name as the name of a directory."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return plain or "job"


def job_settings(config: Configuration) -> JobSettings:
    """The coordinator's settings."""
    interval = config.get(options.CHECKPOINT_INTERVAL)
    retain = config.get(options.CHECKPOINT_RETENTION).upper() == "RETAIN_ON_CANCELLATION"
    return JobSettings(
        interval_ms=interval,
        timeout_ms=config.get(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=config.get(options.CHECKPOINT_MIN_PAUSE),
        max_concurrent=config.get(options.CHECKPOINT_MAX_CONCURRENT),
        tolerable_failures=config.get(options.CHECKPOINT_TOLERABLE_FAILURES),
        retained=config.get(options.CHECKPOINT_NUM_RETAINED),
        retention=Retention.RETAIN_ON_CANCELLATION if retain else Retention.DELETE_ON_CANCELLATION,
        restart=restart_from_config(config, interval is not None),
        committer_retries=config.get(options.COMMITTER_RETRIES),
        slots_timeout_ms=config.get(options.SLOTS_TIMEOUT),
        heartbeat_timeout_ms=config.get(options.HEARTBEAT_TIMEOUT),
        allow_non_restored=config.get(options.IGNORE_UNCLAIMED_STATE),
    )


def _plan_settings(spec: JobSpec, settings: JobSettings) -> dict[str, object]:
    config = spec.configuration
    return {
        "checkpointing": settings.interval_ms is not None,
        "at_least_once": config.get(options.CHECKPOINT_MODE).upper() == "AT_LEAST_ONCE",
        "auto_watermark_interval_ms": config.get(options.AUTO_WATERMARK_INTERVAL),
        "max_rows": config.get(options.BATCH_MAX_ROWS),
        "channel_bytes": config.get(options.CHANNEL_BYTES),
        "heartbeat_interval_ms": config.get(options.HEARTBEAT_INTERVAL),
        "max_parallelism_set": spec.max_parallelism is not None,
        "job_parameters": dict(spec.job_parameters),
    }


def _refuse_unsupported(config: Configuration) -> None:
    if config.get(options.RUNTIME_MODE).upper() == "BATCH":
        raise ConfigError(
            "execution.runtime-mode BATCH is not supported yet; the same program runs in STREAMING mode "
            "and ends when its bounded sources do"
        )
    if config.get(options.UNALIGNED):
        raise ConfigError("execution.checkpointing.unaligned.enabled is not supported yet")
    if config.get(options.STATE_BACKEND).lower() != "hashmap":
        raise ConfigError("only state.backend.type hashmap is supported yet")


def _store(config: Configuration) -> SnapshotStore:
    directory = config.get(options.CHECKPOINT_DIR)
    in_memory = (config.get(options.CHECKPOINT_STORAGE) or "").lower() == "jobmanager"
    if directory is None or in_memory:
        return MemoryStore()
    store = open_store(directory)
    store.inline_limit = config.get(options.INLINE_THRESHOLD)
    return store


def _initial(config: Configuration) -> Found | None:
    path = config.get(options.RECOVERY_PATH)
    return None if path is None else read_manifest(path)


def _warn_about_uids(plan: Plan, config: Configuration) -> None:
    nodes = [planned.node for _, planned in plan.operators()]
    missing = missing_uids(nodes)
    if not missing:
        return
    if not config.get(options.AUTO_GENERATE_UIDS):
        raise GraphError(
            f"pipeline.auto-generate-uids is off and these steps have no uid(): {', '.join(missing)}"
        )
    _log.info(
        "steps without a uid(): %s; their state is found again only while the program's shape stays",
        ", ".join(missing),
    )


def _pickle_plan(plan: Plan) -> bytes:
    """The plan for the slots: sources and sinks travel inside their operators only."""
    vertices = tuple(
        replace(
            vertex,
            operators=tuple(replace(planned, node=_shipped(planned.node)) for planned in vertex.operators),
        )
        for vertex in plan.vertices
    )
    for edge in plan.edges:
        target = plan.vertex(edge.target).name
        _check_shipping(edge.partitioning, f"the key selector or partitioner before {target!r}")
    data: bytes = cloudpickle.dumps(replace(plan, vertices=vertices))
    return data


def _shipped(node: Node) -> Node:
    _check_shipping(node.factory, f"step {node.name!r}")
    return replace(node, source=None, sink=None)


def _check_shipping(part: object, what: str) -> None:
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        raise GraphError(
            f"{what} cannot be sent to the slots: {error}. A function and everything it refers to must be "
            "picklable; open files, locks, connections and Spark objects are not: make them in the "
            "function's open() instead"
        ) from error
