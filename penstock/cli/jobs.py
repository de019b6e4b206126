"""``penstock list`` and ``penstock cancel``: the jobs of this machine, through the registry."""

from __future__ import annotations

import threading
from typing import Any

import click

from penstock.cli.output import age, console, say, say_json, size, stages, table
from penstock.coordinator.registry import Entry, entries, find
from penstock.core.clock import SystemClock
from penstock.core.errors import ClusterError
from penstock.core.job import JobStatus

_POLL_S = 0.1


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def list_jobs(as_json: bool) -> None:
    """List the jobs that run on this machine, of this user."""
    jobs = [_described(entry) for entry in entries()]
    if as_json:
        say_json(jobs)
    elif not jobs:
        say("No jobs are running.")
    else:
        columns = ("ID", "NAME", "STATUS", "SINCE", "CHECKPOINTS", "RESTARTS", "PROGRESS")
        console().print(table(columns, map(_row, jobs), right=("CHECKPOINTS", "RESTARTS")))
        for job in jobs:
            for warning in _warnings(job):
                say(f"Warning: {job['name']} ({job['id'][:12]}): {warning}")


@click.command()
@click.argument("job")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for the end of the job.")
def cancel(job: str, timeout: float) -> None:
    """Cancel JOB (its id, the beginning of its id, or its name) and wait until it has stopped."""
    entry = find(job)
    if not entry.cancel():
        raise ClusterError(
            f"job {entry.name!r} (pid {entry.pid}) does not answer; if it hangs, end the process itself"
        )
    clock = SystemClock()
    deadline = clock.monotonic() + timeout
    while (ended := _ended(entry)) is None:
        if clock.monotonic() > deadline:
            raise ClusterError(f"job {entry.name!r} was told to stop and has not within {timeout:g} s")
        threading.Event().wait(_POLL_S)
    say(f"Job {entry.name} ({entry.id}) {ended}.")


def _ended(entry: Entry) -> str | None:
    """How the job ended; ``None`` while it has not. A driver that is gone has ended its job."""
    if not entry.path.exists():
        return "is cancelled"
    status = entry.status()
    if status is None:
        return None
    reached = JobStatus[status["status"]]
    return f"has ended: {reached.name}" if reached.is_globally_terminal_state() else None


def _described(entry: Entry) -> dict[str, Any]:
    said = entry.status() or {"status": "UNREACHABLE"}
    return {
        "id": entry.id,
        "name": entry.name,
        "pid": entry.pid,
        "started_ms": entry.started_ms,
        "status": said["status"],
        "checkpoints": said.get("checkpoints"),
        "restarts": said.get("restarts"),
        "last_checkpoint": said.get("last_checkpoint"),
        "records_in": said.get("records_in"),
        "outputs_dropped": said.get("outputs_dropped"),
        "late_dropped": said.get("late_dropped"),
        "stalled": said.get("stalled"),
        "held": said.get("held"),
        "stages": said.get("stages"),
    }


def _warnings(job: dict[str, Any]) -> list[str]:
    found = [why for why in (job["stalled"], job["held"]) if why]
    if job["outputs_dropped"]:
        found.append(
            f"{job['outputs_dropped']} prepared outputs could not be committed and were skipped; its log "
            "says DATA LOSS, which ones and why"
        )
    if job.get("late_dropped"):
        found.append(f"{job['late_dropped']:,} late records were dropped; its log says by which steps")
    return found


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    since = age(SystemClock().now_ms() - job["started_ms"])
    counts = (job["checkpoints"], job["restarts"])
    return (job["id"][:12], job["name"], job["status"], since, *counts, _progress(job))


def _progress(job: dict[str, Any]) -> str:
    """The stages of a BATCH job, else the newest checkpoint."""
    if job["stages"]:
        return stages(job["stages"])
    last = job["last_checkpoint"]
    if not last:
        return "-"
    return f"checkpoint {last['epoch']:.0f}: {last['duration_ms']:.0f} ms, {size(last['bytes'])}"
