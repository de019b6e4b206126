"""``penstock rescale``: a savepoint, the end of the job, and its start at another parallelism, in one go."""

from __future__ import annotations

import os
from pathlib import Path

import click

from penstock.cli.jobs import taken
from penstock.cli.output import say
from penstock.cli.run import ProgramError, run
from penstock.coordinator.events import RequestKind
from penstock.coordinator.registry import Entry, find
from penstock.core.errors import ClusterError, ConfigError, PenstockError, SnapshotError
from penstock.snapshot.recovery import read_manifest


@click.command()
@click.argument("job")
@click.option("-p", "--parallelism", required=True, type=click.IntRange(1), help="Subtasks of each step.")
@click.option("--savepoint", "directory", metavar="DIR", help="Where the savepoint goes.")
@click.option("--timeout", default=900.0, show_default=True, help="Seconds to wait for the savepoint.")
@click.pass_context
def rescale(ctx: click.Context, job: str, parallelism: int, directory: str | None, timeout: float) -> None:
    """Stop JOB with a savepoint and go on from it here at PARALLELISM.

    A job that cannot go on so is left as it is: above its maximum parallelism, or too few cores in Spark.

    The program is run again as it was started, by this command, in its place: the environment variables
    are those of this shell. The savepoint is deleted once the job has checkpoints of its own.
    """
    entry = find(job)
    if entry.command is None:
        raise ConfigError(
            f"job {entry.name!r} was not started by penstock run, so nobody knows how to start it again; "
            f"use penstock stop {entry.name} --savepoint DIR, then start the program with -p "
            f"{parallelism} and the savepoint (execution.state-recovery.path)"
        )
    command = dict(entry.command)
    script = Path(command["directory"]) / command["script"]
    if not script.is_file():
        raise ConfigError(f"the program of job {entry.name!r} is gone: there is no {script}")
    _check_limit(entry, parallelism)
    _check_slots(entry, parallelism)
    path = _stopped(entry, parallelism, directory, timeout)
    say(f"Job {entry.name} has stopped; it goes on from {path} at parallelism {parallelism}.", err=True)
    os.chdir(command["directory"])
    try:
        ctx.invoke(
            run,
            parallelism=parallelism,
            master=command["master"],
            settings=tuple(command["settings"]),
            from_snapshot=path,
            allow_non_restored_state=False,
            claim=True,
            name=command["name"],
            config=Path(command["config"]) if command.get("config") else None,
            detached=False,
            log=None,
            script=Path(command["script"]),
            args=tuple(command["args"]),
        )
    except PenstockError as error:
        if ctx.find_root().params.get("debug") or not _is_there(path):
            raise
        raise ProgramError(
            f"{error}\nJob {entry.name} does not run now. Nothing is lost: it goes on where it was, at any "
            f"parallelism, if it is started as before with -s {path}"
        ) from error


def _check_limit(entry: Entry, parallelism: int) -> None:
    """Leave the job as it is if its state cannot be cut into so many parts."""
    limit, step = entry.parallelism_limit() or (parallelism, "")
    if parallelism > limit:
        raise ConfigError(
            f"job {entry.name!r} cannot have parallelism {parallelism}: the maximum of step {step!r} is "
            f"{limit}, and keyed state cannot be cut into more parts than when it began. It runs on as it "
            f"was. Rescale it to {limit} at most"
        )


def _check_slots(entry: Entry, parallelism: int) -> None:
    """Leave the job as it is if it could not go on."""
    most = entry.most_slots()
    if most is None:
        say(f"How many slots job {entry.name} can have is not known; it needs {parallelism}.", err=True)
    elif parallelism > most:
        raise ClusterError(
            f"job {entry.name!r} cannot have {parallelism} slots: Spark has room for {most}. It runs on as "
            f"it was. Rescale it to {max(most, 1)} at most; or, to give Spark more cores, use penstock stop "
            f"{entry.name} --savepoint DIR and penstock run -p {parallelism} -s with that savepoint"
        )


def _stopped(entry: Entry, parallelism: int, directory: str | None, timeout: float) -> str:
    """Stop the job; its savepoint."""
    try:
        return taken(entry, RequestKind.STOP, directory, timeout)
    except ClusterError as error:
        raise ClusterError(
            f"{error}. It was not rescaled. Should it stop after all, nothing starts it again: do so with "
            f"penstock run -p {parallelism} -s and the savepoint that it ended with"
        ) from error


def _is_there(savepoint: str) -> bool:
    """Whether the job still needs the savepoint; later it has checkpoints of its own, and is as any other."""
    try:
        read_manifest(savepoint, verify=False)
    except SnapshotError:
        return False
    return True
