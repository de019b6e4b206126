"""``penstock ui``: a browser that may see the page of all jobs of this machine, or of one that runs."""

from __future__ import annotations

import contextlib
import importlib
import threading
import webbrowser
from pathlib import Path
from typing import Any

import click

from penstock.cli.archived import archives_of
from penstock.cli.output import say, say_exactly
from penstock.cli.program_options import settings_of, settings_option
from penstock.cli.settings_file import find_settings
from penstock.coordinator.registry import find
from penstock.core.config import Configuration, layered
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, ConfigError
from penstock.core.rest_options import REST_PORT

PORT = 8082
"""Where it listens, or on the next port that is free: jobs begin at 8081."""


@click.command()
@click.argument("job", required=False)
@click.option("--archive", "archives", metavar="DIR", multiple=True, help="Ended jobs; may be repeated.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0 is any.")
@click.option("--no-browser", is_flag=True, help="Only print the address. It works once, for two minutes.")
@click.option("--config", type=click.Path(path_type=Path), help="File of settings, or its directory.")
@settings_option
def ui(
    job: str | None,
    archives: tuple[str, ...],
    port: int,
    no_browser: bool,
    config: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Show all jobs of this machine on one page, until Ctrl-C; with JOB, open the page of one that runs.

    The list has your running jobs and the archived ones: of the directories of --archive, or of those of the
    settings (historyserver.archive.fs.dir, jobmanager.archive.fs.dir).
    """
    if job is not None:
        _open_one(job, no_browser)
        return
    found = find_settings(config)
    given = layered(
        {} if found is None else found.settings, settings_of(settings), {REST_PORT.key: str(port)}
    )
    given.check()
    _serve(given, archives_of(archives, given), no_browser)


def _serve(configuration: Configuration, archives: list[str], no_browser: bool) -> None:
    server: Any = importlib.import_module("penstock.rest.ui_serving").UiServer(configuration, archives)
    link = server.link()
    say(f"All jobs of this machine are at {server.url}, until Ctrl-C.", err=True)
    say_exactly(link)
    if not no_browser:
        # Some browsers keep the thread that opens them.
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):  # unless the server has taken it for its own
        server.run()
    say("Closed.", err=True)


def _open_one(job: str, no_browser: bool) -> None:
    entry = find(job)
    if not entry.rest:
        raise ConfigError(
            f"job {entry.name!r} has no page: penstock.rest.enabled is false, or its log says why it has none"
        )
    link = entry.page_link()
    if link is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer", code=Code.DRIVER_SILENT)
    say_exactly(link)
    if not no_browser:
        webbrowser.open(link)
