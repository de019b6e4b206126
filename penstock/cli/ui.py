"""``penstock ui``: open a running job's page in a browser that may see it."""

from __future__ import annotations

import webbrowser

import click

from penstock.cli.output import say_exactly
from penstock.coordinator.registry import Entry, entries, find
from penstock.core.errors import ClusterError, ConfigError


@click.command()
@click.argument("job", required=False)
@click.option("--no-browser", is_flag=True, help="Only print the address. It works once, for two minutes.")
def ui(job: str | None, no_browser: bool) -> None:
    """Open the page of JOB; without JOB, of the one that runs."""
    entry = find(job) if job is not None else _only()
    if not entry.rest:
        raise ConfigError(
            f"job {entry.name!r} has no page: penstock.rest.enabled is false, or its log says why it has none"
        )
    link = entry.page_link()
    if link is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer")
    say_exactly(link)
    if not no_browser:
        webbrowser.open(link)


def _only() -> Entry:
    running = [entry for entry in entries() if entry.rest]
    if len(running) == 1:
        return running[0]
    listed = ", ".join(f"{entry.name} ({entry.id[:8]})" for entry in running) or "none"
    raise ConfigError(f"which job? Say its name or id; with a page run: {listed}")
