"""Job-wide settings that slots need to know, as they travel with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.unpickling import Allowed


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Resolved by the driver from the configuration (``coordinator/assemble.py``), the same for every slot.

    The defaults are those of a plan that was compiled by hand, as tests do.
    """

    checkpointing: bool = False
    """Whether periodic snapshots are on; never in BATCH mode."""
    at_least_once: bool = False
    """Whether barriers are only counted: no channel is blocked until all have brought theirs."""
    unaligned: bool = False
    """Whether barriers may overtake records, where the exchange allows it (``graph/overtaking.py``)."""
    aligned_timeout_ms: int | None = None
    """With ``unaligned``: how long to wait aligned before overtaking; ``None`` overtakes at once."""
    auto_watermark_interval_ms: int = 200
    """How often watermarks are emitted; 0, as in BATCH mode, is never."""
    batch: bool = False
    """Whether the job runs in BATCH mode."""
    object_reuse: bool = False
    """Whether steps and state share records that can change, instead of getting a copy each."""
    max_rows: int = 8192
    """Rows that travel together at most."""
    channel_bytes: int = 8 << 20
    """The most that may be in flight on one channel."""
    network_bytes: int = 256 << 20
    """The most that may be in flight on all channels of a slot (``graph/budget.py``)."""
    heartbeat_interval_ms: int = 10_000
    """How often slots say they are alive."""
    allow_non_restored: bool = False
    """Whether a snapshot may hold state that the program does not take, or keys of another type."""
    max_parallelism_set: bool = False
    """Whether the user chose the max parallelism; else a snapshot's own is adopted."""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    """The user's global job parameters, for functions to read."""
    allowed_classes: Allowed = field(default_factory=Allowed)
    """What may be unpickled from snapshots besides the data types that always are."""
    rocksdb: Mapping[str, Any] | None = None
    """Arguments of ``state.rocks.settings.RocksSettings``; ``None`` keeps keyed state on the heap."""
