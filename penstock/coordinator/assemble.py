"""From a job's specification to what can be started: plan, settings, storage, all of it checked."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass, field

from penstock.coordinator.elastic_settings import elastic_settings
from penstock.coordinator.job_directory import check_owner, find_directory
from penstock.coordinator.layout import Planner
from penstock.coordinator.restore import adopt_max_parallelism
from penstock.coordinator.restore_source import (
    RequestedSnapshot,
    choose,
    requested_snapshot,
    say_if_passed_over,
)
from penstock.coordinator.scaling_settings import scaling_settings
from penstock.coordinator.settings import JobSettings, Retention
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.elastic_options import SCHEDULER
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, GraphError
from penstock.core.job import JobID
from penstock.core.log_format import chosen_format, use_format
from penstock.core.rest_options import SECRET_FIELDS
from penstock.core.restart import longest_pause_ms, restart_from_config
from penstock.core.secret_fields import patterns_of
from penstock.core.security_options import ALLOWED_CLASSES, KEY_FILE, OTHERS_MAY_WRITE, UNSIGNED_TOO
from penstock.core.telling_options import LOG_FORMAT
from penstock.core.unpickling import allow, allowed_by_program
from penstock.graph.bounded import runs_in_batch
from penstock.graph.identity import missing_uids
from penstock.graph.nodes import JobSpec, StartedBy
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan, pickled_plan
from penstock.snapshot.owners import check_files, check_owners
from penstock.snapshot.recovery import Found, signing_of
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import MemoryStore, SnapshotStore
from penstock.snapshot.store import open_store

ROCKSDB = "rocksdb"


def rocksdb_settings(config: Configuration) -> dict[str, object] | None:
    """What a plan's settings say of RocksDB; ``None`` if keyed state lives on the heap."""
    if config.get(options.STATE_BACKEND) != ROCKSDB:
        return None
    return {
        "localdir": config.get(options.ROCKSDB_LOCALDIR),
        "memory_bytes": config.get(options.ROCKSDB_MEMORY),
        "cache_entries": config.get(options.ROCKSDB_CACHE_ENTRIES),
        "cache_bytes": config.get(options.ROCKSDB_CACHE_BYTES),
        "native": config.get(options.CHECKPOINT_INCREMENTAL),
    }


def _local_backup(config: Configuration) -> str | None:
    if not config.get(options.LOCAL_BACKUP):
        return None
    return config.get(options.LOCAL_BACKUP_DIRS) or config.get(options.ROCKSDB_LOCALDIR) or ""


def check_backend(config: Configuration) -> None:
    """Refuse a backend that cannot work before anything is started."""
    if config.get(options.STATE_BACKEND) == ROCKSDB and importlib.util.find_spec("rocksdict") is None:
        raise ConfigError(
            "state.backend.type rocksdb needs the package rocksdict, which is not installed here; install it "
            "(pip install rocksdict) on the driver and on every worker, or use the backend hashmap",
            code=Code.PACKAGE_MISSING,
        )


_log = log_of(__name__)


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
    repository: Repository
    """The job's snapshots, below ``store``."""
    initial: RequestedSnapshot | None
    configuration: Configuration
    is_aside: bool = False
    """Whether this is a run beside the real job, of which nothing is kept."""
    started_by: StartedBy = field(default_factory=StartedBy)
    planner: Planner | None = None
    """Lays it out at another parallelism; there is none in BATCH mode."""

    @property
    def store_url(self) -> str | None:
        """Where slots write state files; ``None`` if it travels to the driver's memory."""
        return None if isinstance(self.store, MemoryStore) else self.store.sub(self.directory).url


def assemble(spec: JobSpec, default_parallelism: int) -> Assembled:
    """Compile, check and resolve everything that can be wrong before anything runs."""
    config = spec.configuration
    use_format(chosen_format(config.get(LOG_FORMAT)))
    _refuse_unsupported(config)
    batch = runs_in_batch(config.get(options.RUNTIME_MODE), spec.nodes)
    settings = job_settings(config)
    for node in spec.nodes:
        if node.source is not None:
            node.source.check()
        if node.sink is not None:
            node.sink.check()
            node.sink.check_interval(settings.interval_ms)
            if settings.interval_ms is not None and not batch:
                pauses = longest_pause_ms(settings.restart) + settings.slots_timeout_ms
                node.sink.check_patience(settings.interval_ms + settings.timeout_ms + pauses)
    parallelism, chaining = spec.parallelism or default_parallelism, config.get(options.OPERATOR_CHAINING)
    buffered_ms = int(config.get(options.BUFFER_TIMEOUT))
    choices = PlanOptions(parallelism, spec.max_parallelism, bool(chaining), buffered_ms)
    plan = compile_plan(list(spec.nodes), spec.name, choices, _plan_settings(spec, settings, batch))
    allow(plan.settings.allowed_classes)
    store, job_id = _store(config), JobID.of_name(spec.name)
    directory = find_directory(store, spec.name, ".batch" if batch else "")
    signing = signing_of(config.get(KEY_FILE), config.get(UNSIGNED_TOO))
    repository = Repository(store, directory, signing=signing)
    if batch:
        _without_snapshots(config)
        pickled_plan(plan)
        kept = (directory, store, repository, None, config)
        return Assembled(plan, b"", settings, job_id, *kept, started_by=spec.started_by)
    _check_scaling(settings)
    _warn_about_uids(plan, config)
    _check_owners(config, config.get(options.RECOVERY_PATH))
    initial = requested_snapshot(config.get(options.RECOVERY_PATH), signing)
    own = repository.latest_valid(verify=False)
    check_owner(own, spec.name)
    newest = choose(own, initial)
    say_if_passed_over(newest, initial)
    if newest is not None:
        _check_files(config, newest)
        plan = adopt_max_parallelism(plan, newest.manifest)
    plan_bytes = pickled_plan(plan)
    found = (directory, store, repository, initial, config)
    planner = Planner(spec.nodes, choices)
    return Assembled(plan, plan_bytes, settings, job_id, *found, spec.is_aside, spec.started_by, planner)


def job_settings(config: Configuration) -> JobSettings:
    """The coordinator's settings."""
    interval = config.get(options.CHECKPOINT_INTERVAL)
    retain = config.get(options.CHECKPOINT_RETENTION).upper() == "RETAIN_ON_CANCELLATION"
    return JobSettings(
        interval_ms=interval,
        timeout_ms=config.get(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=config.get(options.CHECKPOINT_MIN_PAUSE),
        max_concurrent=config.get(options.CHECKPOINT_MAX_CONCURRENT),
        unaligned=config.get(options.UNALIGNED),
        aligned_timeout_ms=config.get(options.ALIGNED_TIMEOUT),
        tolerable_failures=config.get(options.CHECKPOINT_TOLERABLE_FAILURES),
        retained=config.get(options.CHECKPOINT_NUM_RETAINED),
        retention=Retention.RETAIN_ON_CANCELLATION if retain else Retention.DELETE_ON_CANCELLATION,
        restart=restart_from_config(config, interval is not None),
        committer_retries=config.get(options.COMMITTER_RETRIES),
        slots_timeout_ms=config.get(options.SLOTS_TIMEOUT),
        deploy_timeout_ms=config.get(options.DEPLOY_TIMEOUT),
        heartbeat_timeout_ms=config.get(options.HEARTBEAT_TIMEOUT),
        stall_ms=config.get(options.WATERMARK_STALL_TIMEOUT),
        late_ms=config.get(options.LATE_RECORDS_INTERVAL),
        allow_non_restored=config.get(options.IGNORE_UNCLAIMED_STATE),
        claim=config.get(options.CLAIM_MODE).upper() == "CLAIM",
        scaling=scaling_settings(config),
        elastic=elastic_settings(config),
    )


def _plan_settings(spec: JobSpec, settings: JobSettings, batch: bool) -> PlanSettings:
    config = spec.configuration
    return PlanSettings(
        checkpointing=settings.interval_ms is not None and not batch,
        at_least_once=_at_least_once(config),
        unaligned=settings.unaligned,
        aligned_timeout_ms=settings.aligned_timeout_ms or None,
        auto_watermark_interval_ms=0 if batch else config.get(options.AUTO_WATERMARK_INTERVAL),
        batch=batch,
        object_reuse=config.get(options.OBJECT_REUSE),
        max_rows=config.get(options.BATCH_MAX_ROWS),
        channel_bytes=config.get(options.CHANNEL_BYTES),
        network_bytes=config.get(options.NETWORK_MEMORY),
        deals_by_room=config.get(options.DEAL_BY_ROOM),
        heartbeat_interval_ms=config.get(options.HEARTBEAT_INTERVAL),
        allow_non_restored=settings.allow_non_restored,
        max_parallelism_set=spec.max_parallelism is not None,
        job_parameters=dict(spec.job_parameters),
        allowed_classes=allowed_by_program(config.get(ALLOWED_CLASSES)),
        log_format=chosen_format(config.get(LOG_FORMAT)),
        rocksdb=rocksdb_settings(config),
        local_backup=_local_backup(config),
        secret_fields=patterns_of(config.get(SECRET_FIELDS)),
    )


def _refuse_unsupported(config: Configuration) -> None:
    if config.get(options.CLAIM_MODE).upper() == "LEGACY":
        raise ConfigError(
            "execution.state-recovery.claim-mode LEGACY is not supported: nobody would own the snapshot. Use "
            "NO_CLAIM, which never touches it, or CLAIM, which hands it to the job"
        )
    _check_unaligned(config)
    check_backend(config)


def _without_snapshots(config: Configuration) -> None:
    """There are none in BATCH mode: refuse to begin at one, and say that none will be taken."""
    if path := config.get(options.RECOVERY_PATH):
        raise ConfigError(
            f"the job runs in BATCH mode, which knows no snapshots, so it cannot start from {path!r}; leave "
            f"out {options.RECOVERY_PATH.key}, or set {options.RUNTIME_MODE.key} to STREAMING",
            code=Code.BATCH_FROM_SNAPSHOT,
        )
    if config.get(options.CHECKPOINT_INTERVAL) is not None:
        _log.info(
            "the job runs in BATCH mode, where %s has no effect: there are no snapshots",
            options.CHECKPOINT_INTERVAL.key,
        )


def _check_scaling(settings: JobSettings) -> None:
    if settings.interval_ms is not None:
        return
    needs = f"needs checkpoints, for a job is rescaled from one: set {options.CHECKPOINT_INTERVAL.key}, or"
    if settings.scaling is not None:
        raise ConfigError(f"job.autoscaler.enabled {needs} leave the autoscaler off")
    if settings.elastic is not None:
        raise ConfigError(f"{SCHEDULER.key} ADAPTIVE {needs} leave it at DEFAULT")


def _at_least_once(config: Configuration) -> bool:
    return config.get(options.CHECKPOINT_MODE).upper() == "AT_LEAST_ONCE"


def _check_unaligned(config: Configuration) -> None:
    if not config.get(options.UNALIGNED):
        return
    if _at_least_once(config):
        raise ConfigError(
            "unaligned checkpoints need execution.checkpointing.mode EXACTLY_ONCE: with AT_LEAST_ONCE no "
            "barrier waits for another, so there is nothing to overtake. Set one of the two back",
            code=Code.UNALIGNED,
        )
    if config.get(options.CHECKPOINT_MAX_CONCURRENT) > 1:
        raise ConfigError(
            "unaligned checkpoints are taken one at a time; set "
            "execution.checkpointing.max-concurrent-checkpoints to 1, or "
            "execution.checkpointing.unaligned.enabled to false",
            code=Code.UNALIGNED,
        )


def _store(config: Configuration) -> SnapshotStore:
    directory = config.get(options.CHECKPOINT_DIR)
    in_memory = (config.get(options.CHECKPOINT_STORAGE) or "").lower() == "jobmanager"
    if directory is None or in_memory:
        return MemoryStore()
    _check_owners(config, directory)
    store = open_store(directory)
    store.inline_limit = config.get(options.INLINE_THRESHOLD)
    return store


def _check_owners(config: Configuration, directory: str | None) -> None:
    if directory and not config.get(OTHERS_MAY_WRITE):
        check_owners(directory)


def _check_files(config: Configuration, found: Found) -> None:
    if not config.get(OTHERS_MAY_WRITE):
        check_files(found.location.root, [found.location.manifest, *found.manifest.files()])


def _warn_about_uids(plan: Plan, config: Configuration) -> None:
    nodes = [planned.node for _, planned in plan.operators()]
    missing = missing_uids(nodes)
    if not missing:
        return
    if not config.get(options.AUTO_GENERATE_UIDS):
        raise GraphError(
            f"pipeline.auto-generate-uids is off and these steps have no uid(): {', '.join(missing)}",
            code=Code.UID_MISSING,
        )
    lasting = (options.CHECKPOINT_DIR, options.SAVEPOINT_DIR, options.RECOVERY_PATH)
    level = logging.WARNING if any(config.get(option) for option in lasting) else logging.INFO
    _log.log(
        level,
        "steps without a uid(): %s; their state is found again only while the program's shape stays. Give "
        "every step with state a uid() before you rely on its savepoints",
        ", ".join(missing),
    )
