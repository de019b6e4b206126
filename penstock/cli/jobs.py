"""``penstock list``, ``cancel``, ``savepoint``, ``stop`` and ``checkpoint JOB``: requests to running jobs.

The jobs of this machine are found through the registry.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import click

from penstock.cli.output import age, console, say, say_json, size, stages, table
from penstock.coordinator.asking import Said
from penstock.coordinator.events import RequestKind
from penstock.coordinator.registry import Entry, entries, find
from penstock.coordinator.restore_source import dispose
from penstock.core.clock import SystemClock
from penstock.core.discreet import shown
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, SnapshotError
from penstock.core.job import JobStatus
from penstock.snapshot.recovery import read_manifest

_POLL_S = 0.1
_SILENCE_S = 15.0
"""How long a driver may say nothing before it is taken for dead."""
_COMPLETE = "; it is complete if its directory has a _metadata file"
_HOW_TO_TELL = {RequestKind.SAVEPOINT: _COMPLETE, RequestKind.STOP: _COMPLETE, RequestKind.DRAIN: _COMPLETE}
_timeout = click.option(
    "--timeout", default=900.0, show_default=True, help="Seconds to wait; the driver goes on all the same."
)


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
            f"job {entry.name!r} (pid {entry.pid}) does not answer; if it hangs, end the process itself",
            code=Code.DRIVER_SILENT,
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


@click.command()
@click.argument("job", required=False)
@click.argument("directory", required=False)
@click.option("--dispose", "doomed", metavar="PATH", help="Delete the savepoint at PATH instead.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@_timeout
def savepoint(job: str | None, directory: str | None, doomed: str | None, yes: bool, timeout: float) -> None:
    """Take a savepoint of JOB into DIRECTORY while the job goes on.

    Without DIRECTORY it goes to execution.checkpointing.savepoint-dir of the job. The last line printed
    is where it is: start from there with penstock run -s.
    """
    if doomed is not None:
        if job is not None:
            raise click.UsageError("give either a job to take a savepoint of, or --dispose PATH")
        _dispose(doomed, yes)
        return
    if job is None:
        raise click.UsageError("which job? Give its name or id, or --dispose PATH")
    say(taken(find(job), RequestKind.SAVEPOINT, directory, timeout))


@click.command()
@click.argument("job")
@click.option("--savepoint", "directory", metavar="DIR", help="Where the savepoint goes.")
@click.option("--drain", is_flag=True, help="End the input first: windows and timers fire. Do not resume.")
@_timeout
def stop(job: str, directory: str | None, drain: bool, timeout: float) -> None:
    """Stop JOB with a savepoint; what it has read is committed. To end without one: penstock cancel."""
    entry = find(job)
    where = taken(entry, RequestKind.DRAIN if drain else RequestKind.STOP, directory, timeout)
    say(f"Job {entry.name} ({entry.id}) has stopped.", err=True)
    say(where)


@click.command()
@click.argument("job")
@_timeout
def trigger(job: str, timeout: float) -> None:
    """Take a checkpoint of JOB now."""
    say(taken(find(job), RequestKind.CHECKPOINT, None, timeout))


class JobOrCommand(click.Group):
    """A group that takes the name of a job for its command ``trigger``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            return super().resolve_command(ctx, ["trigger", *args])
        return super().resolve_command(ctx, args)


def taken(entry: Entry, kind: RequestKind, directory: str | None, timeout: float) -> str:
    """Ask a driver for a snapshot and wait for it; where it is."""
    if directory is not None and "://" not in directory:
        directory = str(Path(directory).absolute())
    answer = entry.request(kind, directory)
    if answer is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer", code=Code.DRIVER_SILENT)
    if not answer.is_good:
        raise SnapshotError.of_text(answer.why_not)
    return awaited(entry, kind, str(answer.body["request-id"]), timeout)


def awaited(entry: Entry, kind: RequestKind, number: str, timeout: float) -> str:
    """Wait for what a driver was asked for; the snapshot that came of it."""
    clock = SystemClock()
    heard = clock.monotonic()
    deadline = heard + timeout
    with _Progress(entry, kind) as progress:
        while True:
            said = entry.outcome(kind, number)
            now = clock.monotonic()
            heard = heard if said is None else now
            place = None if said is None else _place(said)
            if place is not None:
                return place
            if now - heard > _SILENCE_S or (said is None and not entry.path.exists()):
                raise ClusterError(
                    f"the driver of job {entry.name!r} (pid {entry.pid}) is gone or hangs and did not say "
                    f"what became of the {kind.noun}{_HOW_TO_TELL.get(kind, '')}",
                    code=Code.DRIVER_SILENT,
                )
            if now > deadline:
                raise ClusterError(
                    f"the {kind.noun} of job {entry.name!r} is not complete after {timeout:g} s; the driver "
                    f"goes on with it. penstock list shows how the job stands"
                )
            progress.show()
            threading.Event().wait(_POLL_S)


def _place(said: Said) -> str | None:
    """Where a snapshot is, if it is complete; ``None`` while it is not, an error if it never will be."""
    if not said.is_good:
        raise SnapshotError.of_text(said.why_not)
    operation = said.body["operation"]
    if operation is None:
        return None
    if "failure-cause" in operation:
        raise SnapshotError.of_text(operation["failure-cause"]["stack-trace"])
    return str(operation["location"])


class _Progress:
    """Tells a person at a terminal how far a snapshot is."""

    def __init__(self, entry: Entry, kind: RequestKind) -> None:
        self._entry = entry
        self._status = console().status(f"{kind.noun} of {entry.name}: waiting for the driver")
        self._noun = kind.noun
        self._shown = console().is_terminal

    def __enter__(self) -> _Progress:
        if self._shown:
            self._status.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            self._status.stop()

    def show(self) -> None:
        """Ask and show; only at a terminal."""
        if not self._shown:
            return
        said: dict[str, Any] = self._entry.status() or {}
        if said.get("held"):
            self._status.update(f"{self._noun} of {self._entry.name} waits: {said['held']}")
        for one in said.get("under_way", ()):
            if one["kind"] == self._noun or self._noun == RequestKind.RESCALE.noun:
                text = (
                    f"{self._noun} {one['epoch']} of {self._entry.name}: {one['acks']} of {one['of']} tasks"
                )
                self._status.update(text)


def _dispose(path: str, yes: bool) -> None:
    found = read_manifest(path, verify=False)
    manifest = found.manifest
    total = sum(blob.length for blob in manifest.blobs())
    if not yes:
        click.confirm(
            shown(
                f"Delete {manifest.kind.value} {manifest.epoch} of job {manifest.job_name} ({size(total)} of "
                f"state) at {found.location}?"
            ),
            abort=True,
        )
    dispose(found)
    say(f"Deleted {found.location.root}.")
