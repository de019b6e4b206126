"""Job-wide settings of the coordinator, resolved from the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.coordinator.elastic_settings import ElasticSettings
from penstock.coordinator.scaling_settings import ScalingSettings
from penstock.core.job import JobStatus
from penstock.core.restart import NoRestart, RestartPolicy


class Retention(Enum):
    """What happens to checkpoints when a job is cancelled. On success they are always deleted, on
    failure always kept (``docs/design/003-retention.md``)."""

    DELETE_ON_CANCELLATION = "delete"
    RETAIN_ON_CANCELLATION = "retain"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job is snapshotted, restarted and watched. Times in milliseconds."""

    interval_ms: int | None = None
    """Time between periodic snapshots; ``None`` takes only the final one."""
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    unaligned: bool = False
    """Whether barriers of checkpoints may overtake queued records."""
    aligned_timeout_ms: int = 0
    """How long an unaligned checkpoint is tried aligned first."""
    tolerable_failures: int = 0
    retained: int = 1
    retention: Retention = Retention.DELETE_ON_CANCELLATION
    restart: RestartPolicy = field(default_factory=NoRestart)
    committer_retries: int = 10
    commit_backoff_ms: int = 200
    slots_timeout_ms: int = 30_000
    deploy_timeout_ms: int = 1_800_000
    heartbeat_timeout_ms: int = 50_000
    stall_ms: int = 60_000
    """How long event time may stand still before users are told; 0 never tells."""
    late_ms: int = 60_000
    """How often users are told of late records that were dropped; 0 never tells."""
    allow_non_restored: bool = False
    claim: bool = False
    """Whether the savepoint the job was started from is deleted once its own checkpoints suffice."""
    scaling: ScalingSettings | None = None
    """How the job changes its own parallelism; ``None`` if it does not."""
    elastic: ElasticSettings | None = None
    """When it goes on with fewer slots than it wants; ``None`` if it waits for all."""

    def deletes_checkpoints(self, status: JobStatus, keep: bool) -> bool:
        """Whether the checkpoints of a job that ends so go; ``keep`` if the user may want to go on."""
        cancelled = status is JobStatus.CANCELED and not keep
        return status is JobStatus.FINISHED or (
            cancelled and self.retention is Retention.DELETE_ON_CANCELLATION
        )
