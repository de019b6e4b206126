"""How commands print: names and data as they are, never as markup, without secrets or control characters.

Everything goes through :func:`say` or :func:`console`; a test holds the commands to it.  What several
commands print alike is here too: tables, ages, sizes, and the line that shows how a job stands.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.common._bar import bar
from penstock.common._progress_bar import the_only_bar
from penstock.coordinator.running_job import RunningJob
from penstock.core.clock import SystemClock
from penstock.core.discreet import discreet, harmless, plain, shown
from penstock.core.durations import age
from penstock.core.telling_options import PROGRESS

__all__ = [
    "age",
    "as_file_name",
    "console",
    "moment",
    "say",
    "say_exactly",
    "say_json",
    "size",
    "stages",
    "table",
]

_WIDE = 240
_LONGEST = 160
"""Bytes of a name that leave room for what stands behind it: file systems have 255."""
_INTERVAL_S = 0.25


class _Console(Console):
    """Shows text only: what looks like markup or an emoji's name is neither."""

    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(shown(text), **settings)


def console() -> Console:
    """Standard output, looked up now: tests and scripts replace it. Nothing is cut for programs."""
    width = None if sys.stdout.isatty() else _WIDE
    return _Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def say(text: str, err: bool = False, colour: str | None = None) -> None:
    """A line, or several, on standard output or standard error."""
    click.secho(shown(text), fg=colour, err=err)


def say_exactly(text: str) -> None:
    """Data for a program that reads standard output; at a terminal it steers nothing."""
    click.echo(harmless(text) if sys.stdout.isatty() else text)


def say_json(value: Any) -> None:
    """Values for a program that reads standard output, without secrets."""
    click.echo(json.dumps(_discreet(value), indent=2))


def _discreet(value: Any) -> Any:
    """Text by text: in JSON as a whole, what ends one text could be taken for the beginning of a secret."""
    if isinstance(value, dict):
        return {name: _discreet(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_discreet(item) for item in value]
    return discreet(value) if isinstance(value, str) else value


def as_file_name(text: str) -> str:
    """What can be read of a text, as the beginning of a file's name; nothing if that is nothing."""
    plain = re.sub(r"[^\w.-]+", "-", text).strip(".-")
    return plain.encode()[:_LONGEST].decode(errors="ignore")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A plain table; ``right`` names the columns of numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(plain(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(plain(str(cell)) for cell in row))
    return made


def size(count: float) -> str:
    """Bytes, as a person reads them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def stages(progress: Mapping[str, int]) -> str:
    """How far a BATCH job is."""
    if not progress["stages"]:
        return "finding its input"
    tasks = f", tasks {progress['tasks_done']} of {progress['tasks']}" if progress["tasks"] else ""
    return f"stages {progress['stages_done']} of {progress['stages']}{tasks}"


def moment(ms: int) -> str:
    """A time of the calendar, in UTC."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


@contextmanager
def progress_line(jobs: Sequence[RunningJob]) -> Iterator[None]:
    """Show the newest of ``jobs``, a list that may grow, until the block ends."""
    with the_only_bar() as mine:
        if not mine:
            yield
            return
        stop = threading.Event()
        thread = threading.Thread(target=_show, args=(jobs, stop), daemon=True, name="penstock-progress")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _show(jobs: Sequence[RunningJob], stop: threading.Event) -> None:
    while not any(_runs(job) and job.job.configuration.get(PROGRESS) for job in jobs):
        if stop.wait(_INTERVAL_S):
            return
    clock = SystemClock()
    started = clock.monotonic()
    with Live(console=console(), refresh_per_second=4, transient=True) as live:
        while not stop.wait(_INTERVAL_S):
            live.update(_rendered(jobs[-1], clock.monotonic() - started))


def _rendered(job: RunningJob, seconds: float) -> RenderableType:
    """A bar for a job that ends by itself; a line for others."""
    view = job.view()
    return bar(view) if view.bounded else Text(plain(line(job, seconds)))


def _runs(job: RunningJob) -> bool:
    return not job.status().is_terminal_state()


def line(job: RunningJob, seconds: float) -> str:
    """The job in one line."""
    facts = job.facts()
    beginning = f"{facts['name']}: {facts['status']} for {age(seconds * 1000)}   "
    if facts["stages"]:
        return beginning + stages(facts["stages"])
    last = facts["last_checkpoint"]
    took = f", the last in {last['duration_ms']:.0f} ms" if last else ""
    return (
        f"{beginning}checkpoints {facts['checkpoints']}{took}   restarts {facts['restarts']}   "
        f"records received {facts['records_in']:,}"
    )
