"""``penstock events``: what happened to a running job, and when: the driver's own log of it."""

from __future__ import annotations

import click

from penstock.cli.output import console, moment, say, say_json, table
from penstock.coordinator.registry import find
from penstock.core.errors import ClusterError


@click.command()
@click.argument("job")
@click.option("--last", default=50, show_default=True, type=click.IntRange(1), help="How many, at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def events(job: str, last: int, as_json: bool) -> None:
    """Show what happened to JOB: attempts, failures, lost slots, failed checkpoints, savepoints, restores."""
    entry = find(job)
    found = entry.events()
    if found is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer")
    newest = found[-last:]
    if as_json:
        say_json(newest)
    elif not newest:
        say("Nothing has happened yet.")
    else:
        rows = [(moment(one["timestamp"]), one["kind"], one["text"]) for one in newest]
        console().print(table(("WHEN", "WHAT", ""), rows))
