"""The cluster, its one application and its one job: what a tool asks for first.  Pure."""

from __future__ import annotations

from typing import Any

import penstock
from penstock.core.job import JobStatus
from penstock.rest.look import Look
from penstock.rest.task_views import STATES, state_counts

VERSION = "2.3.0"
"""The Flink whose REST this is: tools compare it with what they can speak."""
REFRESH_MS = 3000


def config(look: Look, timezone: tuple[str, int]) -> dict[str, Any]:
    """What a dashboard must know before it shows anything; the zone's name and offset in milliseconds."""
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": timezone[0],
        "timezone-offset": timezone[1],
        "flink-version": VERSION,
        "flink-revision": f"penstock-{penstock.__version__}",
        "features": {
            "web-submit": False,
            "web-cancel": not look.read_only,
            "web-rescale": not look.read_only,
            "web-history": False,
        },
    }


def overview(look: Look) -> dict[str, Any]:
    """Slots and jobs in numbers."""
    alive = sum(not slot.lost for slot in look.history.slots.values())
    over = look.status.is_terminal_state()
    managers = 0 if over or look.is_batch else alive
    return {
        "taskmanagers": managers,
        "slots-total": managers,
        "slots-available": 0,
        "taskmanagers-blocked": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": int(not over),
        "jobs-finished": int(look.status is JobStatus.FINISHED),
        "jobs-cancelled": int(look.status is JobStatus.CANCELED),
        "jobs-failed": int(look.status is JobStatus.FAILED),
        "flink-version": VERSION,
        "flink-commit": f"penstock-{penstock.__version__}",
    }


def jobs(look: Look) -> dict[str, Any]:
    """Ids and statuses alone."""
    return {"jobs": [{"id": look.job_id, "status": look.status.name}]}


def job_line(look: Look) -> dict[str, Any]:
    """The job as lists show it."""
    history = look.history
    counts = state_counts(look, look.plan.subtasks())
    tasks = {"total": sum(counts.values()), **{state.lower(): counts[state] for state in STATES}}
    return {
        "jid": look.job_id,
        "name": look.plan.job_name,
        "jobType": "BATCH" if look.is_batch else "STREAMING",
        "schedulerType": "Default",
        "start-time": history.started_ms,
        "end-time": -1 if history.ended_ms is None else history.ended_ms,
        "duration": look.elapsed(history.started_ms, history.ended_ms),
        "state": look.status.name,
        "last-modification": history.statuses[-1][1],
        "tasks": tasks,
        "pending-operators": 0,
    }


def jobs_overview(look: Look) -> dict[str, Any]:
    """The list of jobs."""
    return {"jobs": [job_line(look)]}


def application_line(look: Look) -> dict[str, Any]:
    """The driver's program: one application, whose only job this is."""
    line = job_line(look)
    return {
        "id": look.job_id,
        "name": look.plan.job_name,
        "start-time": line["start-time"],
        "end-time": line["end-time"],
        "duration": line["duration"],
        "status": application_status(look.status),
    }


def applications_overview(look: Look) -> dict[str, Any]:
    """The list of applications."""
    return {"applications": [{**application_line(look), "jobs": {look.status.name: 1}}]}


def application(look: Look) -> dict[str, Any]:
    """The one application."""
    times = {status.name: 0 for status in JobStatus} | {
        status.name: int(at) for status, at in look.history.since.items()
    }
    return {**application_line(look), "timestamps": times, "jobs": [job_line(look)]}


def application_status(status: JobStatus) -> str:
    """Applications have fewer states than jobs."""
    if status is JobStatus.CANCELLING:
        return "CANCELING"
    known = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELED", "FINISHED")
    return status.name if status.name in known else "RUNNING"
