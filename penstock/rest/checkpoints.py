"""Snapshots in Flink's words: counts, history, details by subtask, settings.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.coordinator.checkpoint_history import CheckpointPart, CheckpointRecord, CheckpointState
from penstock.coordinator.settings import Retention
from penstock.core import options
from penstock.core.discreet import discreet
from penstock.core.ids import Subtask
from penstock.graph.plan import Vertex
from penstock.rest.look import Look, Refused, rest_id
from penstock.rest.stats import summary
from penstock.snapshot.paths import checkpoint_directory

NEVER_MS = 2**63 - 1
"""The interval of a job that takes no checkpoints by itself."""


def checkpoints(look: Look) -> dict[str, Any]:
    """All that is known of them, newest first."""
    history = look.history
    done = [one for one in history.checkpoints if one.state is CheckpointState.COMPLETED]
    restored = history.restored
    latest: dict[str, Any] = {
        name: None if name not in history.latest else record(look, history.latest[name])
        for name in ("completed", "savepoint", "failed")
    }
    latest["restored"] = None
    if restored is not None:
        latest["restored"] = {
            "id": int(restored.epoch),
            "restore_timestamp": restored.restored_ms,
            "is_savepoint": restored.from_outside,
            "external_path": discreet(restored.root or look.root or ""),
        }
    return {
        "counts": dict(history.checkpoint_counts),
        "summary": {
            "checkpointed_size": summary(_sizes(one)["checkpointed_size"] for one in done),
            "state_size": summary(_sizes(one)["state_size"] for one in done),
            "end_to_end_duration": summary(one.duration_ms or 0 for one in done),
            "alignment_buffered": summary(0 for _ in done),
            "processed_data": summary(0 for _ in done),
            "persisted_data": summary(_sizes(one)["persisted_data"] for one in done),
        },
        "latest": latest,
        "history": [record(look, one) for one in reversed(history.checkpoints)],
    }


def found(look: Look, checkpoint_id: str) -> CheckpointRecord:
    """The snapshot with this id, or 404."""
    for one in look.history.checkpoints:
        if str(int(one.epoch)) == checkpoint_id:
            return one
    raise Refused(404, f"no checkpoint {checkpoint_id} is remembered; only the newest are")


def record(look: Look, one: CheckpointRecord) -> dict[str, Any]:
    """One snapshot with its vertices."""
    made: dict[str, Any] = {
        "className": one.state.name.lower(),
        "id": int(one.epoch),
        "status": one.state.name,
        "is_savepoint": one.is_savepoint,
        "trigger_timestamp": one.triggered_ms,
        **_progress(one, one.parts, one.subtasks),
        "checkpoint_type": _type(one),
        "tasks": {rest_id(vertex): _of_vertex(one, vertex) for vertex in look.plan.vertices},
    }
    if one.is_savepoint:
        made["savepointFormat"] = "CANONICAL"
    if one.state is CheckpointState.COMPLETED:
        made |= {"external_path": discreet(_path(look, one)), "discarded": False}
    if one.state is CheckpointState.FAILED:
        made |= {"failure_timestamp": one.ended_ms, "failure_message": one.failure or ""}
    return made


def _type(one: CheckpointRecord) -> str:
    if one.is_savepoint:
        return "SYNC_SAVEPOINT" if one.stop else "SAVEPOINT"
    return "UNALIGNED_CHECKPOINT" if one.unaligned else "CHECKPOINT"


def _path(look: Look, one: CheckpointRecord) -> str:
    if one.location is not None:
        return one.location
    return "" if look.root is None else f"{look.root}/{checkpoint_directory(one.epoch)}"


def _sizes(one: CheckpointRecord) -> dict[str, int]:
    return _summed(one.parts.values())


def _summed(parts: Iterable[CheckpointPart]) -> dict[str, int]:
    known = list(parts)
    return {
        "checkpointed_size": sum(part.written_bytes for part in known),
        "state_size": sum(part.state_bytes for part in known),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": sum(part.persisted_bytes for part in known),
    }


def _progress(
    one: CheckpointRecord, parts: Mapping[Subtask, CheckpointPart], subtasks: int
) -> dict[str, Any]:
    acked = max((part.acked_ms for part in parts.values()), default=None)
    over = one.state is not CheckpointState.IN_PROGRESS
    last = one.ended_ms if one.state is CheckpointState.FAILED and acked is None else acked
    return {
        "latest_ack_timestamp": -1 if acked is None else acked,
        "end_to_end_duration": max(0, last - one.triggered_ms) if over and last is not None else -1,
        **_summed(parts.values()),
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": len(parts),
    }


def _parts_of(one: CheckpointRecord, vertex: Vertex) -> dict[Subtask, CheckpointPart]:
    return {subtask: part for subtask, part in one.parts.items() if subtask.vertex == vertex.id}


def _of_vertex(one: CheckpointRecord, vertex: Vertex) -> dict[str, Any]:
    parts = _parts_of(one, vertex)
    state = one.state
    if len(parts) == vertex.parallelism and state is CheckpointState.IN_PROGRESS:
        state = CheckpointState.COMPLETED
    return {
        "id": int(one.epoch),
        "status": state.name,
        **_progress(one, parts, vertex.parallelism),
    }


def subtasks(look: Look, one: CheckpointRecord, vertex: Vertex) -> dict[str, Any]:
    """What each subtask of a vertex took for one snapshot."""
    parts = _parts_of(one, vertex)
    known = list(parts.values())
    return {
        **_of_vertex(one, vertex),
        "summary": {
            "checkpointed_size": summary(part.written_bytes for part in known),
            "state_size": summary(part.state_bytes for part in known),
            "end_to_end_duration": summary(part.acked_ms - one.triggered_ms for part in known),
            "checkpoint_duration": {
                "sync": summary(part.sync_ms for part in known),
                "async": summary(part.async_ms for part in known),
            },
            "alignment": {
                "buffered": summary(0 for _ in known),
                "processed": summary(0 for _ in known),
                "persisted": summary(part.persisted_bytes for part in known),
                "duration": summary(part.alignment_ms for part in known),
            },
            "start_delay": summary(part.start_delay_ms for part in known),
        },
        "subtasks": [_part(one, subtask, parts.get(subtask)) for subtask in vertex.subtasks()],
    }


def _part(one: CheckpointRecord, subtask: Subtask, part: CheckpointPart | None) -> dict[str, Any]:
    if part is None:
        return {"className": "pending", "index": int(subtask.index), "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": int(subtask.index),
        "status": "completed",
        "ack_timestamp": part.acked_ms,
        "end_to_end_duration": max(0, part.acked_ms - one.triggered_ms),
        "checkpointed_size": part.written_bytes,
        "state_size": part.state_bytes,
        "checkpoint": {"sync": int(part.sync_ms), "async": int(part.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": part.persisted_bytes,
            "duration": int(part.alignment_ms),
        },
        "start_delay": int(part.start_delay_ms),
        "unaligned_checkpoint": one.unaligned,
        "aborted": one.state is CheckpointState.FAILED,
    }


def config(look: Look) -> dict[str, Any]:
    """How checkpoints are taken."""
    settings, chosen = look.settings, look.configuration
    interval = None if look.is_batch else settings.interval_ms
    return {
        "mode": "at_least_once" if look.plan.settings.at_least_once else "exactly_once",
        "interval": NEVER_MS if interval is None else interval,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.retention is Retention.RETAIN_ON_CANCELLATION,
            "delete_on_cancellation": settings.retention is Retention.DELETE_ON_CANCELLATION,
        },
        "state_backend": str(chosen.get(options.STATE_BACKEND)),
        "checkpoint_storage": discreet(look.root or "the driver's memory"),
        "unaligned_checkpoints": settings.unaligned,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "",
    }
