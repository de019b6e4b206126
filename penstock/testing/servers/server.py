"""What all test servers have in common: come up, be killed, come back, go without a trace."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import ClassVar, Self

from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.testing.servers.process import LOOPBACK, account, free_port, kill_tree, spawn, watchdog

_UP_WITHIN = 300.0
"""A server that failed has ended; one that is alive on a crowded machine only takes its time."""
_TAIL_LINES = 30


class Server(ABC):
    """One server on a free port of loopback, with its data in a temporary directory.

    Call order: ``start``; then ``kill`` and ``restart`` as often as wanted; then ``stop``.  As a context
    manager it starts and stops.  Port, password and data stay the same until ``stop``, which removes the
    data; so does the end of this process, even by ``kill -9``.  Not for several threads.
    """

    title: ClassVar[str]
    """What people call it."""
    runs_as: ClassVar[str | None] = None
    """Account to run under if we are root, of a server that refuses to be root."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGKILL
    user: str = "penstock"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` are added to the server's own ones, by the names that it gives them."""
        self.host = LOOPBACK
        self.port = free_port()
        self.password = secrets.token_urlsafe(12)
        self._settings = dict(settings or {})
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"{type(self).__name__}({self.host}:{self.port}, {state})"

    @classmethod
    @abstractmethod
    def why_not(cls) -> str | None:
        """One sentence on why this server cannot run here, or ``None`` if it can."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make configuration and empty data, once, before the first start."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command line that runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves requests by now; asked until it does."""

    @property
    def directory(self) -> Path:
        """Where configuration, data and log are, while it is started."""
        if self._directory is None:
            raise ConfigError(f"{self.title} was not started: call start() first, or use it with `with`")
        return self._directory

    @property
    def log(self) -> Path:
        """What the server said."""
        return self.directory / "server.log"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Make the data and bring the server up; returns when it serves requests."""
        reason = self.why_not()
        if reason is not None:
            raise ConfigError(reason)
        if self._directory is not None:
            raise ConfigError(f"{self.title} was started already: after kill() call restart()")
        self._directory = Path(tempfile.mkdtemp(prefix=f"penstock-{self.title.lower()}-"))
        self._watchdog = watchdog(self._directory)
        try:
            self._own(self._directory)
            self._prepare()
            self._launch()
        except BaseException:
            self.stop()
            raise
        return self

    def kill(self) -> None:
        """Kill -9 everything that belongs to the server; its data stays as it is at that moment."""
        if self._process is not None:
            kill_tree(self._process)
            self._process = None

    def restart(self) -> None:
        """Bring it up again on the same port and data, killing it first if it runs."""
        self.kill()
        self._launch()

    def stop(self) -> None:
        """End the server and remove its data. May be called twice."""
        if self._process is not None:
            try:
                self._process.send_signal(self.stop_signal)
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            self.kill()
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None
        self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, command: Sequence[str]) -> None:
        """Run a tool of the server to its end, as the account that the server runs under."""
        process = spawn(command, self.log, account(self.runs_as))
        if process.wait() != 0:
            raise ConnectorError(f"{self.title} could not be set up by {command[0]}: {self._tail()}")

    def _write(self, name: str, text: str) -> Path:
        """A file in the server's directory that only it can read."""
        file = self.directory / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        self._own(file)
        return file

    def _own(self, path: Path) -> None:
        user = account(self.runs_as)
        if user is not None:
            shutil.chown(path, user)

    def _launch(self) -> None:
        process = self._process = spawn(self._command(), self.log, account(self.runs_as))
        (self.directory / "pid").write_text(str(process.pid), encoding="utf-8")
        clock = SystemClock()
        deadline = clock.monotonic() + _UP_WITHIN
        while not self._answers():
            if process.poll() is not None:
                self._process = None
                raise ConnectorError(f"{self.title} ended with code {process.returncode}: {self._tail()}")
            if clock.monotonic() > deadline:
                raise ConnectorError(f"{self.title} did not answer within {_UP_WITHIN:.0f} s: {self._tail()}")
            Event().wait(0.05)

    def _tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        return "the end of its log is\n" + "\n".join(line.replace(self.password, "***") for line in lines)


def find_program(names: Sequence[str], places: Sequence[str] = ()) -> str | None:
    """The first of ``names`` on the PATH, in ``/usr/sbin``, or in a directory that a pattern matches."""
    matched = [
        str(found) for place in places for found in sorted(Path("/").glob(place.lstrip("/")), reverse=True)
    ]
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", *matched])
    return next((found for name in names if (found := shutil.which(name, path=search))), None)


MISSING = (
    "{title} cannot run here: {what} was not found; `make servers` installs it on Debian and Ubuntu as root"
)
