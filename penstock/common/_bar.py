"""How a job's progress is drawn on a terminal."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.common._job_view import JobView
from penstock.core.discreet import discreet, plain
from penstock.core.durations import age

_WIDTH = 30


def on_terminal() -> Live:
    """Where bars are shown, one over the other; what is printed meanwhile stands above."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    return Live(console=console, refresh_per_second=4, transient=True)


def bar(view: JobView) -> RenderableType:
    """The job in one line; names are text, whatever they look like."""
    known = view.done[0] if view.done else None
    if known is None:
        measure = ProgressBar(width=_WIDTH, pulse=True)
    else:
        measure = ProgressBar(known.of, min(known.done, known.of), width=_WIDTH)
    line = Table.grid(padding=(0, 1))
    for _ in range(3):
        line.add_column(no_wrap=True, overflow="ellipsis")
    line.add_row(Text(_safe(view.name)), measure, Text(_safe(said(view))))
    return line


def said(view: JobView) -> str:
    """What stands behind the bar."""
    parts = [f"{done.what} {done.done:,} of {done.of:,}" for done in view.done]
    if view.rows_in is not None:
        parts.append(f"{view.rows_in:,} rows, {view.rows_in_rate:,.0f}/s")
    return ", ".join([*parts, f"{view.status.name} for {age(view.runs_ms)}"])


def _safe(text: str) -> str:
    return plain(discreet(text))
