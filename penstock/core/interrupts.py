"""SIGINT (Ctrl-C) and SIGTERM while a job is started and waited for.

Python runs a handler in the main thread, between two instructions of whatever is there.  An exception
raised from it may vanish in a destructor, of which PySpark's objects have many, or leave something half made.
So the first signal raises nothing: it is noted, and :func:`pending`, what :func:`breaking` was given and what
the guard was told to end with see to it.  What a person expects of the signal happens at the end of the
guard: ``KeyboardInterrupt``, ``SystemExit(143)``, or the host's own handler.  A second signal ends the
process at once.

Handlers are installed in the main thread only, only while a guard is open, and not for a signal that the
process ignores; those that were there before are back afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.core.discreet import discreet_command, log_of

_log = log_of(__name__)
_HEARD = (signal.SIGINT, signal.SIGTERM)
SAID = "the job has ended; what is kept of it was said"
"""What an interrupt says. A class of our own would not do: Python ends with status 1 behind a subclass."""
_RUNS_FILE = getattr(sys.modules.get("__main__"), "__file__", None) is not None
"""Asked for in time: Python forgets it before it ends."""
TERMINATED = 143
"""Exit status behind a SIGTERM, as shells count."""


class Guard:
    """Knows whether a signal came, and what is to be done about it."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that came."""
        self.actions: list[Callable[[], object]] = []
        """What lets go at once whoever waits; called in the handler, so quick and harmless to repeat."""
        self._end: Callable[[], object] | None = None
        self._describe: Callable[[], str] | None = None
        self._before: dict[int, Any] = {}

    def end_with(self, end: Callable[[], object], describe: Callable[[], str]) -> None:
        """From now on a signal ends the job; at once if one came already.

        ``end`` runs on a thread of its own.  ``describe`` tells, once the job has ended, what is kept.
        """
        self._end, self._describe = end, describe
        if self.number is not None:
            self._begin_end()

    def install(self) -> None:
        """Take the signals; a handler that PySpark put in the place of ours is kept for afterwards."""
        for number in _HEARD:
            present = signal.getsignal(number)
            if present not in (self._on_signal, signal.SIG_IGN, None):
                self._before[number] = present
                signal.signal(number, self._on_signal)

    def restore(self) -> None:
        """The handlers that were there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def tell(self) -> None:
        """Say in one line what is kept and how to go on."""
        if self._describe is None:
            _log.warning("interrupted before the job began: nothing was changed; %s", how_to_go_on())
        else:
            _log.warning("%s", self._describe())

    def deliver(self) -> None:
        """What the signal means to the program; returns if its own handler does."""
        handler = self._before.get(self.number or 0)
        if self.number == signal.SIGINT and _raises(handler):
            raise KeyboardInterrupt(SAID)
        if self.number == signal.SIGTERM and handler == signal.SIG_DFL:
            raise SystemExit(TERMINATED)
        signal.raise_signal(self.number or signal.SIGINT)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            self._end_at_once(number)
            return
        self.number = number
        self._act()
        if self._end is not None:
            self._begin_end()

    def _act(self) -> None:
        for action in self.actions:
            with contextlib.suppress(Exception):
                action()

    def _begin_end(self) -> None:
        assert self._end is not None
        threading.Thread(target=self._end, daemon=True, name="penstock-interrupt").start()

    def _end_at_once(self, number: int) -> None:
        """Not even Python's own clean-up runs: it waits for threads. In a shell the shell stays."""
        self._act()
        if number == signal.SIGINT and not _is_program():
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


_open: Guard | None = None


@contextmanager
def guarded() -> Iterator[Guard]:
    """The signals are seen to while the block runs; nothing changes in another thread, or inside a guard."""
    global _open
    if threading.current_thread() is not threading.main_thread():
        yield Guard()
        return
    if _open is not None:
        yield _open
        return
    guard = _open = Guard()
    guard.install()
    try:
        yield guard
    finally:
        guard.restore()
        _open = None
        if guard.number is not None:
            guard.tell()
            guard.deliver()


def pending() -> bool:
    """Whether a signal came and what is under way should be given up."""
    return _open is not None and _open.number is not None


def renew() -> None:
    """Something may have put its own handlers in the place of ours."""
    if _open is not None and threading.current_thread() is threading.main_thread():
        _open.install()


@contextmanager
def breaking(action: Callable[[], object]) -> Iterator[None]:
    """While the block runs, a signal calls ``action``, in the handler; at once if one came already."""
    guard = _open
    if guard is None:
        yield
        return
    guard.actions.append(action)
    try:
        if guard.number is not None:
            action()
        yield
    finally:
        guard.actions.remove(action)


def how_to_go_on() -> str:
    """The command that starts this program again, as the end of a sentence."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "go on with the same spark-submit command"
    if not _is_program():
        return "go on by running the job again"
    return f"go on with: {_command(sys.orig_argv)}"


def _command(argv: list[str]) -> str:
    """How the process was started; a script of its own goes by its name, if that finds it."""
    argv = discreet_command(argv)
    script = Path(argv[1]) if len(argv) > 1 else None
    if script is not None and script.name == "penstock" and os.access(script, os.X_OK):
        found = shutil.which("penstock")
        name = "penstock" if found is not None and Path(found).samefile(script) else str(script)
        return shlex.join([name, *argv[2:]])
    return shlex.join(argv)


def _raises(handler: Any) -> bool:
    """Whether a handler of SIGINT does no more than Python's, or than PySpark's for its own jobs."""
    module = str(getattr(handler, "__module__", None))
    return handler is signal.default_int_handler or module.startswith("pyspark")


def _is_program() -> bool:
    """Whether the process runs a file, and is not a shell or a notebook where somebody goes on."""
    return _RUNS_FILE and not sys.flags.interactive
