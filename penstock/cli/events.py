"""``penstock events``: what happened to a job, and when: its driver's own log of it, or its archive."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.archived import archived_events, archives_of
from penstock.cli.output import console, moment, say, say_json, table
from penstock.coordinator.registry import find
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, ConfigError


@click.command()
@click.argument("job")
@click.option("--last", default=50, show_default=True, type=click.IntRange(1), help="How many, at most.")
@click.option("--archive", "archives", metavar="DIR", multiple=True, help="Where ended jobs are archived.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def events(job: str, last: int, archives: tuple[str, ...], as_json: bool) -> None:
    """Show what happened to JOB: attempts, failures, lost slots, failed checkpoints, savepoints, restores.

    If no such job runs, its newest run is looked for in --archive, or in the directory of the settings.
    """
    newest = _happened(job, archives)[-last:]
    if as_json:
        say_json(newest)
    elif not newest:
        say("Nothing has happened yet.")
    else:
        rows = [(moment(one["timestamp"]), one["kind"], one["text"]) for one in newest]
        console().print(table(("WHEN", "WHAT", ""), rows))


def _happened(job: str, archives: tuple[str, ...]) -> list[dict[str, Any]]:
    """By the driver if it runs, else by the archive; what is wrong with the latter is said in any case."""
    directories = archives_of(archives)
    try:
        entry = find(job)
    except ConfigError:
        found = archived_events(job, directories) if directories else None
        if found is None:
            raise
        return found
    told = entry.events()
    if told is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer", code=Code.DRIVER_SILENT)
    return told
