"""Checkpoints of the job that exists only as answers: thirty of them, the older the smaller."""

from __future__ import annotations

from typing import Any

from tests.console.fake_job import FakeJob, Vertex, now_ms

Json = Any

KEPT = 30
EVERY_MS = 10_000
PARTS = ("min", "max", "avg", "p50", "p90", "p95", "p99", "p999")


def checkpoints(job: FakeJob) -> Json:
    """``/jobs/:id/checkpoints``."""
    newest = KEPT + job.looks // 20
    history = [checkpoint(job, number) for number in range(newest, newest - KEPT, -1)]
    done = next(one for one in history if one["status"] == "COMPLETED")
    failed = history[0] if job.checkpoint_failed else None
    return {
        "counts": {"restored": 1, "total": newest, "in_progress": 0, "completed": newest - 1, "failed": 1},
        "summary": {
            "checkpointed_size": _spread(2_000_000),
            "state_size": _spread(48_000_000),
            "end_to_end_duration": _spread(740),
            "alignment_buffered": _spread(0),
            "processed_data": _spread(90_000),
            "persisted_data": _spread(0),
        },
        "latest": {
            "completed": {
                **done,
                "external_path": f"file:/data/checkpoints/{job.jid}/chk-{done['id']}",
                "discarded": False,
            },
            "savepoint": None,
            "failed": failed
            and {**failed, "failure_timestamp": now_ms(), "failure_message": failed["failure_message"]},
            "restored": {
                "id": 3,
                "restore_timestamp": job.started,
                "is_savepoint": True,
                "external_path": "file:/data/savepoints/savepoint-5b1e0c-1",
            },
        },
        "history": history,
    }


def checkpoint(job: FakeJob, number: int) -> Json:
    """One entry of the history, with its tasks."""
    newest = KEPT + job.looks // 20
    failed = job.checkpoint_failed and number == newest
    at = now_ms() - (newest - number) * EVERY_MS - 2000
    took = 400 + 97 * (number % 7)
    made = {
        "className": "failed" if failed else "completed",
        "id": number,
        "status": "FAILED" if failed else "COMPLETED",
        "is_savepoint": False,
        "trigger_timestamp": at,
        "latest_ack_timestamp": at + took,
        "checkpoint_type": "CHECKPOINT",
        **_costs(number, took, sum(vertex.parallelism for vertex in job.vertices)),
        "tasks": {
            vertex.id: {"id": number, "status": "COMPLETED", "latest_ack_timestamp": at + took}
            | _costs(number, took, vertex.parallelism)
            for vertex in job.vertices
        },
    }
    return made | {"failure_message": "Checkpoint expired before completing."} if failed else made


def of_vertex(job: FakeJob, number: int, vertex: Vertex) -> Json:
    """``.../details/:checkpoint/subtasks/:vertex``."""
    depth = job.vertices.index(vertex)
    subtasks = [
        {
            "className": "completed",
            "index": at,
            "status": "completed",
            "ack_timestamp": now_ms(),
            "end_to_end_duration": 300 + 60 * depth,
            "checkpointed_size": 90_000 * (depth + 1),
            "state_size": 2_000_000 * (depth + 1),
            "checkpoint": {"sync": 6 + 4 * depth, "async": 120 + 70 * (depth == 3) * (at + 1)},
            "alignment": {
                "buffered": 0,
                "processed": 4000,
                "persisted": 0,
                "duration": 0 if depth < 2 else 40 + 22 * at,
            },
            "start_delay": 5 + 45 * depth,
            "unaligned_checkpoint": False,
            "aborted": False,
        }
        for at in range(vertex.parallelism)
    ]
    return {**checkpoint(job, number)["tasks"][vertex.id], "summary": {}, "subtasks": subtasks}


CONFIG = {
    "mode": "exactly_once",
    "interval": EVERY_MS,
    "timeout": 600_000,
    "min_pause": 0,
    "max_concurrent": 1,
    "externalization": {"enabled": True, "delete_on_cancellation": False},
    "state_backend": "rocksdb",
    "checkpoint_storage": "file:/data/checkpoints",
    "unaligned_checkpoints": False,
    "tolerable_failed_checkpoints": 0,
    "aligned_checkpoint_timeout": 0,
    "checkpoints_after_tasks_finish": True,
    "state_changelog_enabled": False,
    "changelog_periodic_materialization_interval": 0,
    "changelog_storage": "",
}


def _costs(number: int, took: int, subtasks: int) -> Json:
    return {
        "checkpointed_size": 1_400_000 + 91_000 * (number % 9),
        "state_size": 40_000_000 + 310_000 * number,
        "end_to_end_duration": took,
        "alignment_buffered": 0,
        "processed_data": 81_000,
        "persisted_data": 0,
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": subtasks,
    }


def _spread(value: int) -> Json:
    return {part: value * (at + 4) // 6 for at, part in enumerate(PARTS)}
