"""``JobClient.show()``: a job below the cell of a notebook, kept up to date while it runs.

IPython is used if the program runs in it; nothing is imported for that which is not there already.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.common._job_view import JobView
from penstock.core.errors import ConfigError

_LEAST_S = 0.1
Look = Callable[[], JobView]


def checked_pace(every: object) -> float:
    """Seconds between two looks."""
    if isinstance(every, bool) or not isinstance(every, int | float) or not _LEAST_S <= every <= 3600:
        raise ConfigError(f"show() takes seconds from {_LEAST_S} to 3600, not {every!r:.80}")
    return float(every)


def show(look: Look, every_s: float, stop: threading.Event) -> None:
    """Show the job now; in a notebook also later, until it has ended or ``stop`` is set."""
    display = _notebook()
    if display is None:
        print(look().text())
        return
    view = look()
    number = f"penstock-{view.run_id}-{id(stop)}"
    display.display(_bundle(view), raw=True, display_id=number)

    def keep_up() -> None:
        over = False
        while not over and not stop.wait(every_s):
            now = look()
            over = now.status.is_terminal_state()
            try:
                display.update_display(_bundle(now), raw=True, display_id=number)
            except Exception:
                return  # the notebook has gone; the job has not

    if not view.status.is_terminal_state():
        threading.Thread(target=keep_up, daemon=True, name="penstock-show").start()


def _bundle(view: JobView) -> dict[str, str]:
    return {"text/html": view.html(), "text/plain": view.text()}


def _notebook() -> Any | None:
    """IPython's module of displays, if this is a notebook: one has a kernel, a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    return sys.modules.get("IPython.display")
