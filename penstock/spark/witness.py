"""How the driver learns why a worker died: PySpark's daemon, its parent, waits for it and tells.

PySpark's own daemon ignores its children's ends.  Ours (:mod:`penstock.spark.daemon`) hears them.  A slot
leaves a *will* with it: whom to tell.  It is written into a page of memory that the daemon shares with the
worker, one for each, so nothing can fill up and no file is left behind.

The machine says how much memory a process uses, how much it may, and whom the kernel killed; everything is
zero or unlimited where the system does not tell (it is Linux that does).
"""

from __future__ import annotations

import contextlib
import encodings.idna
import json
import mmap
import os
import re
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

_STEP = mmap.PAGESIZE
"""What the kernel counts memory in."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the kernel tells: ``proc`` and the ``cgroups`` of version 2 or 1."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")

    def used_bytes(self) -> int:
        """Memory that this process uses now."""
        fields = _read(self.proc / "self/statm").split()
        return int(fields[1]) * _STEP if len(fields) > 1 else 0

    def limit_bytes(self) -> int:
        """What this process may use at most: the machine's memory, or less if a control group says so."""
        total = re.search(r"MemTotal:\s*(\d+) kB", _read(self.proc / "meminfo"))
        limits = [int(total[1]) * 1024] if total else []
        for group in self._groups():
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = _read(group / name).strip()
                limits += [int(text)] if text.isdigit() else []
        return min(limits, default=0)

    def oom_kills(self) -> int:
        """How many processes the out-of-memory killer has ended, as near to this one as the kernel counts."""
        own = [
            group / name for group in self._groups()[:1] for name in ("memory.events", "memory.oom_control")
        ]
        counts = (_counted(path) for path in (*own, self.proc / "vmstat"))
        return next((count for count in counts if count is not None), 0)

    def _groups(self) -> list[Path]:
        """The control group of this process and those around it, innermost first."""
        places: dict[Path, str] = {}
        for line in _read(self.proc / "self/cgroup").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, name = rest.partition(":")
            if "memory" in controllers.split(","):
                places[self.cgroups / "memory"] = name
            elif number == "0":
                places[self.cgroups] = name
        if not places:
            return []
        # Where both versions are in use, memory is counted by whichever has that controller.
        root = max(places, key=lambda place: len(place.parts))
        inner = root / places[root].lstrip("/")
        if not inner.is_dir():  # a container sees its own group as the root
            inner = root
        around = [inner, *inner.parents]
        return around[: around.index(root) + 1]


def _counted(path: Path) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", _read(path), re.MULTILINE)
    return int(found[1]) if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


_MEBI = 1 << 20
_MORE_MEMORY = (
    "Give the machine or the container more memory, lower the parallelism, or keep state on disk "
    "(state.backend.type: rocksdb)"
)


@dataclass(frozen=True, slots=True)
class Death:
    """What whoever waited for the process saw."""

    pid: int
    status: int
    """As ``waitpid`` gives it."""
    peak_bytes: int = 0
    """The most memory it ever used; 0 if that is not known."""
    limit_bytes: int = 0
    """What it might use."""
    oom_kill: bool = False
    """Whether the kernel's out-of-memory killer ended a process at that time."""

    def to_text(self) -> str:
        """For the way to the driver."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Death:
        """Raises :class:`ValueError` if the text is none."""
        try:
            return Death(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from None

    def __str__(self) -> str:
        if not os.WIFSIGNALED(self.status):
            return (
                f"its Python process ({self.pid}) ended itself with exit status "
                f"{os.waitstatus_to_exitcode(self.status)}: code of the job, or a library, called os._exit()"
            )
        number = os.WTERMSIG(self.status)
        return (
            f"its Python process ({self.pid}) was killed by signal {number}{_name(number)}{self._who(number)}"
        )

    def _who(self, number: int) -> str:
        used = memory(self.peak_bytes, self.limit_bytes)
        had = f", {used} at most" if used else ""
        if number != signal.SIGKILL:
            crash = number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
            return f": a crash in native code of a library that the job uses{had}" if crash else had
        if self.oom_kill:
            return f": the kernel's out-of-memory killer did that{had}. {_MORE_MEMORY}"
        return f"{had}. Somebody sent that; the kernel counts no out-of-memory kill at that time"


def memory(used: int, limit: int = 0) -> str:
    """``it used 512 MB of 2048 MB``, or nothing if that is not known."""
    if not used:
        return ""
    return f"it used {used // _MEBI} MB" + (f" of {limit // _MEBI} MB" if limit else "")


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


_PAGE = 1 << 18
"""Room for any chain of certificates; the kernel gives memory only for what is written."""
_FRESH_S = 10.0
"""How long a process that the kernel kills may take to be gone: it may have much to give back."""
PRELOADED = encodings.idna
"""What connecting would import: not in the middle of whatever the daemon does."""
_REACH_S = 2.0
_MOST = 64
_BLANK = 16
"""So many may be forked before the first of them has written whose its page is, which it does at once."""


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

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever written: its worker has not begun, or died before it did."""
        return not self._used and self._memory[:1] == b"\0"

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
            begun = [page for page in self._pages[:-_BLANK] if not page.is_blank]
            # Not behind the fork: the child may be dead by then.
            self._pages = [*begun, *self._pages[-_BLANK:], self._newest]
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
