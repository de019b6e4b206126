"""How the driver learns why a worker died: PySpark's daemon, its parent, waits for it and tells.

PySpark's own daemon ignores its children's ends.  Ours (:mod:`penstock.spark.daemon`) hears them.  A slot
leaves a *will* with it: whom to tell.  It is written into a page of memory that the daemon shares with the
worker, one for each, so nothing can fill up and no file is left behind.
"""

from __future__ import annotations

import contextlib
import encodings.idna
import json
import mmap
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import TransportError
from penstock.exchange.auth import Hello
from penstock.exchange.lines import PLAIN, Lines, unpacked
from penstock.spark.deaths import Death
from penstock.spark.memory import Machine

_PAGE = 1 << 18
"""Room for any chain of certificates; the kernel gives memory only for what is written."""
_FRESH_S = 10.0
"""How long a process that the kernel kills may take to be gone: it may have much to give back."""
PRELOADED = encodings.idna
"""What connecting would import: not in the middle of whatever the daemon does."""
_REACH_S = 2.0
_MOST = 64


@dataclass(frozen=True, slots=True)
class Will:
    """Who is to hear of a slot's death."""

    driver: tuple[str, int]
    secret: str
    """In hexadecimal digits."""
    job: str
    generation: int
    slot: int
    transport: dict[str, Any] = field(default_factory=PLAIN.packed)

    def __repr__(self) -> str:
        return f"Will({self.job}, generation {self.generation}, slot {self.slot})"


class _Page:
    """What a worker and the daemon share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PAGE)
        self._used = 0

    def write(self, pid: int, will: Will | None) -> None:
        text = json.dumps([pid, None if will is None else asdict(will)]).encode()
        if len(text) < _PAGE:
            covered = max(len(text), self._used)  # nothing stays of what stood there
            self._memory[:covered] = text.ljust(covered, b"\0")
            self._used = len(text)

    def read(self) -> tuple[int, Will | None]:
        """Whose it is, and the will; of nobody (0) if that process died while it wrote."""
        text = self._memory[: self._memory.find(b"\0")]
        try:
            pid, will = json.loads(text) if text else (0, None)
        except ValueError:
            return 0, None
        return pid, None if will is None else Will(**{**will, "driver": tuple(will["driver"])})


class Kills:
    """The kernel's out-of-memory kills, each of which explains one death."""

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self._seen = machine.oom_kills()
        self._open: list[float] = []
        """When those were noticed that explain nothing yet."""

    def look(self) -> None:
        """Notice what happened: when somebody dies later, it is too old to be the cause."""
        seen = self._machine.oom_kills()
        now = self._clock.monotonic()
        self._open += [now] * min(seen - self._seen, _MOST)
        self._open = [at for at in self._open if now - at <= _FRESH_S][-_MOST:]
        self._seen = seen

    def explains_one(self) -> bool:
        """Whether one of them can be what ended a process that was killed."""
        self.look()
        was_open, self._open = bool(self._open), self._open[1:]
        return was_open


class Witness:
    """Lives in the daemon; its workers have a copy, and in it their own page."""

    def __init__(self) -> None:
        self._machine = Machine()
        self._daemon = os.getpid()
        self._kills = Kills(self._machine, SystemClock())
        self._pages: list[_Page] = []
        self._newest = _Page()
        self._destroyed: set[int] = set()
        """Workers that Spark had this daemon kill, and that are not waited for yet."""

    def watch(self) -> None:
        """From now on the ends of this process's children are heard, although PySpark ignores them."""
        os.register_at_fork(before=self._before_fork, after_in_child=self._in_child)
        plain, plain_kill = signal.signal, os.kill

        def hearing(number: int, handler: Any) -> Any:
            ignored = number == signal.SIGCHLD and handler is signal.SIG_IGN and os.getpid() == self._daemon
            return plain(number, self._on_child if ignored else handler)

        def killing(pid: int, number: int) -> None:
            if number != signal.SIGKILL or os.getpid() != self._daemon:
                return plain_kill(pid, number)
            self._destroyed.add(pid)  # not behind the kill: it may be waited for by then
            try:
                plain_kill(pid, number)
            except OSError:
                self._destroyed.discard(pid)
                raise

        setattr(signal, "signal", hearing)  # noqa: B010
        setattr(os, "kill", killing)  # noqa: B010

    # --- in the worker ----------------------------------------------------------------------

    def leave(self, will: Will | None) -> None:
        """A slot begins in this process, or it has ended (``None``)."""
        self._newest.write(os.getpid(), will)

    # --- in the daemon ----------------------------------------------------------------------

    def _before_fork(self) -> None:
        if os.getpid() == self._daemon:
            self._newest = _Page()
            self._pages.append(self._newest)  # not behind the fork: the child may be dead by then
            self._kills.look()

    def _in_child(self) -> None:
        if os.getppid() == self._daemon:
            self._pages = []  # the others' wills are not for this one
            self.leave(None)

    def _on_child(self, number: int, frame: FrameType | None) -> None:
        """Never raises: it interrupts whatever PySpark's daemon is doing.  Is not interrupted by itself."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            self._reap()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                try:
                    self._died(pid, status, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
                except Exception as error:
                    print(f"the death of worker {pid} could not be told: {error!r}", file=sys.stderr)

    def _died(self, pid: int, status: int, peak_bytes: int) -> None:
        if status == 0 or pid in self._destroyed:
            self._destroyed.discard(pid)
            _remove_crash_log(pid)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        struck = killed and self._kills.explains_one()
        known = [(page, *page.read()) for page in self._pages]
        self._pages = [page for page, owner, _ in known if owner != pid]
        for will in [will for _, owner, will in known if owner == pid]:
            if will is not None and status != 0:
                _tell(will, Death(pid, status, peak_bytes, self._machine.limit_bytes(), struck))


def _remove_crash_log(pid: int) -> None:
    """Spark reads and removes that of a worker which crashed under a task, and leaves all others'."""
    directory = os.environ.get("PYTHON_FAULTHANDLER_DIR")
    if directory:
        (Path(directory) / str(pid)).unlink(missing_ok=True)


def _tell(will: Will, death: Death) -> None:
    hello = Hello(will.job, will.generation, will.slot, "witness", words=death.to_text())
    lines = Lines(bytes.fromhex(will.secret), unpacked(will.transport))
    with contextlib.suppress(TransportError):  # a driver that is gone need not be told
        lines.call(will.driver, hello, _REACH_S).close()


_here: Witness | None = None


def install() -> None:
    """For the daemon: watch over the workers that it is about to fork."""
    global _here
    _here = Witness()
    _here.watch()


def leave_will(will: Will | None) -> None:
    """For a slot: say who is to be told if this process dies; does nothing below another daemon."""
    if _here is not None:
        _here.leave(will)
