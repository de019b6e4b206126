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

from penstock.common._job_view import JobView

_EVERY_S = 0.25
_LAST_S = 5.0
_the_one = threading.Lock()


@contextmanager
def the_only_bar() -> Iterator[bool]:
    """Whether the terminal is ours until the end of the block: it is one, and nobody else shows a bar."""
    mine = _is_terminal() and _the_one.acquire(blocking=False)
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
        if not mine or not _ends(look):
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


def _is_terminal() -> bool:
    """A program may have closed its output, have none, or have something of its own there."""
    try:
        return bool(sys.stdout.isatty())
    except Exception:
        return False


def _ends(look: Callable[[], JobView]) -> bool:
    with suppress(Exception):
        return look().bounded
    return False


def _show(look: Callable[[], JobView], stop: threading.Event) -> None:
    with suppress(Exception):
        # Loaded by who shows one: a program has no use for it.
        drawing = importlib.import_module("penstock.common._bar")
        with drawing.on_terminal() as shown:
            while not stop.wait(_EVERY_S):
                shown.update(drawing.bar(look()))
