"""A bar on the terminal while ``execute()`` waits for a job that ends by itself.

Only on a terminal, only one in a process (``penstock run`` has its own line), and whatever goes wrong with it
stays here.  What is done is counted in Spark's stages in BATCH mode, in splits else; where no total is known
there are rows and rates.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.common._job_view import JobView
from penstock.core.discreet import discreet, plain
from penstock.core.durations import age

if TYPE_CHECKING:
    from rich.console import RenderableType

_EVERY_S = 0.25
_LAST_S = 5.0
_WIDTH = 30
_the_one = threading.Lock()


@contextmanager
def the_only_bar() -> Iterator[bool]:
    """Whether the terminal is ours until the end of the block: it is one, and nobody else shows a bar."""
    mine = sys.stdout.isatty() and _the_one.acquire(blocking=False)
    try:
        yield mine
    finally:
        if mine:
            _the_one.release()


@contextmanager
def progress_bar(look: Callable[[], JobView], enabled: bool) -> Iterator[None]:
    """Show the job until the end of the block, if it ends by itself and there is a terminal."""
    if not enabled:
        yield
        return
    with the_only_bar() as mine:
        if not mine or not look().bounded:
            yield
            return
        stop = threading.Event()
        thread = threading.Thread(target=_show, args=(look, stop), daemon=True, name="penstock-progress")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_LAST_S)


def _show(look: Callable[[], JobView], stop: threading.Event) -> None:
    with suppress(Exception):
        console: Any = importlib.import_module("rich.console")
        live: Any = importlib.import_module("rich.live")
        with live.Live(console=console.Console(), refresh_per_second=4, transient=True) as shown:
            while not stop.wait(_EVERY_S):
                shown.update(bar(look()))


def bar(view: JobView) -> RenderableType:
    """The job in one line."""
    # Loaded by whoever shows one: a program has no use for it.
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    known = view.done[0] if view.done else None
    measure = (
        ProgressBar(width=_WIDTH, pulse=True)
        if known is None
        else ProgressBar(known.of, min(known.done, known.of), width=_WIDTH)
    )
    line = Table.grid(padding=(0, 1))
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
