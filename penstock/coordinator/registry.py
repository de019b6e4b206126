"""The jobs that run on this machine, as files: how the command line finds them.

Each driver writes ``$PENSTOCK_HOME/jobs/<job id>-<pid>-<door>.json`` for a job it runs, and removes it when
the job ends.  The directory is its user's only.  The file names a socket beside it, ``<pid>-<door>.sock``,
and the token to talk to it (see ``asking.py``).  Files of drivers that are gone go when jobs are listed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock.coordinator.asking import FOR_BROWSER, PATIENCE_S, Answer, Said, ask, exchange
from penstock.coordinator.events import RequestKind
from penstock.coordinator.private import HAS_SOCKETS, bind_private, check_own, make_private
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, TransportError
from penstock.core.job import normal_name
from penstock.storage.own_files import FILE, make_directory

_log = log_of(__name__)
_SOCKET = ".sock"
_LOOPBACK = "127.0.0.1"
_BACKLOG = 1024
_CONFLICT = 409
_BEGIN_S = 35.0
"""A snapshot begins when there is a directory for it: longer than the driver waits for that."""


def home() -> Path:
    """Where Penstock keeps what belongs to this user: ``$PENSTOCK_HOME``, or ``~/.penstock``."""
    chosen = os.environ.get("PENSTOCK_HOME")
    return Path(chosen).expanduser() if chosen else Path.home() / ".penstock"


def make_home() -> Path:
    """The same, made if it is not there, for this user's eyes only."""
    place = home()
    make_directory(place)
    return place


@dataclass(frozen=True, slots=True)
class Entry:
    """A running driver's file."""

    id: str
    name: str
    pid: int
    started_ms: int
    port: int
    """Of the loopback address, where there are no sockets with names."""
    token: str
    command: dict[str, Any] | None = None
    """Options of the ``penstock run`` that started the driver."""
    socket: str = ""
    """Name of its socket in the directory of the file."""
    rest: str = ""
    """Address of its page and of REST."""
    rest_token: str = ""
    """What requests to REST must show."""

    def __repr__(self) -> str:
        return f"Entry({self.id}, {self.name!r}, pid {self.pid})"

    @property
    def path(self) -> Path:
        """Where the file is."""
        door = self.socket.removesuffix(_SOCKET).partition("-")[2] or self.port
        return _directory() / f"{self.id}-{self.pid}-{door}.json"

    def status(self) -> dict[str, Any] | None:
        """What the driver says about its job; ``None`` if it does not answer."""
        return self._get("/facts")

    def cancel(self) -> bool:
        """Ask for the end of the job; whether the driver took the request, or the job has ended anyway."""
        said = self._ask("PATCH", f"{self._job}?mode=cancel")
        return said is not None and (said.is_good or said.status == _CONFLICT)

    def page_link(self) -> str | None:
        """An address of the job's page that lets one browser in; ``None`` if there is none."""
        said = self._ask("POST", "/page-link", {})
        return said.body.get("link") if said is not None else None

    def events(self) -> list[dict[str, Any]] | None:
        """What happened to the job, oldest first; ``None`` if its driver does not answer."""
        return (self._get("/events") or {}).get("events")

    def request(self, kind: RequestKind, directory: str | None) -> Said | None:
        """Ask for a snapshot: ``request-id`` of the answer is its number; ``None`` if nobody answers."""
        body: dict[str, Any] = {} if directory is None else {"targetDirectory": directory}
        if kind is RequestKind.DRAIN:
            body["drain"] = True
        where = "stop" if kind.ends_job else f"{kind.noun}s"
        return self._ask("POST", f"{self._job}/{where}", body, _BEGIN_S)

    def rescale(self, parallelism: int) -> Said | None:
        """Ask for another parallelism: ``request-id`` of the answer is its number."""
        return self._ask("PATCH", f"{self._job}/rescaling?parallelism={parallelism}", {}, _BEGIN_S)

    def outcome(self, kind: RequestKind, number: str) -> Said | None:
        """How a request stands; ``None`` if the driver does not answer."""
        where = "rescaling" if kind is RequestKind.RESCALE else f"{kind.noun}s"
        return self._ask("GET", f"{self._job}/{where}/{number}")

    def for_browser(
        self, method: str, target: str, body: bytes | None, patience_s: float, most: int
    ) -> Answer:
        """Ask for somebody at a browser, who may what the job's own page may; ``target`` has the query, too.

        :class:`TransportError` if there is no answer, or one of more than ``most`` bytes.
        """
        headers = {FOR_BROWSER: "yes", **({"Content-Type": "application/json"} if body else {})}
        return exchange(self._where, self.token, method, target, body, patience_s, most, headers)

    @property
    def _job(self) -> str:
        return f"/jobs/{self.id}"

    @property
    def _where(self) -> int | Path:
        return _directory() / self.socket if self.socket else self.port

    def _get(self, what: str) -> dict[str, Any] | None:
        said = self._ask("GET", f"{self._job}{what}")
        return said.body if said is not None and said.is_good else None

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, patience_s: float = PATIENCE_S
    ) -> Said | None:
        try:
            return ask(self._where, self.token, method, path, body, patience_s)
        except TransportError:
            return None


class Registration:
    """A place where a job of this process can be reached by its user alone, and the file that tells it.

    The socket listens from the beginning; who serves it calls :meth:`publish`, and :meth:`close` when the
    job ends.
    """

    def __init__(self, entry: Entry, opened: socket.socket, leaves_something: bool = True) -> None:
        self.entry = entry
        self.socket = opened
        self._leaves_something = leaves_something

    def publish(self, rest: str = "", rest_token: str = "") -> None:
        """Be found, with the address of a page if there is one."""
        self.entry = replace(self.entry, rest=rest, rest_token=rest_token)
        try:
            if self._leaves_something:
                _warn_about_namesakes(self.entry)
            _write(self.entry)
        except (OSError, ConfigError) as error:
            _say_hidden(self.entry.name, error)

    def close(self) -> None:
        """Be found no more; who is connected stays so. Safe to repeat."""
        with contextlib.suppress(OSError):
            self.entry.path.unlink(missing_ok=True)
            if self.entry.socket:
                (_directory() / self.entry.socket).unlink(missing_ok=True)


def register(
    job_id: str,
    name: str,
    command: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    leaves_something: bool = True,
) -> Registration | None:
    """Open a job's place; ``None``, with a warning, where that cannot be: the job runs all the same.

    ``leaves_something``: another job of this name would take its checkpoints, or what its sinks have begun,
    for its own.
    """
    try:
        make_home()
        make_private(_directory())
        opened, door = _open()
    except (OSError, ConfigError) as error:
        _say_hidden(name, error)
        return None
    port = 0 if door else int(opened.getsockname()[1])
    started = (clock or SystemClock()).now_ms()
    given = None if command is None else dict(command)
    entry = Entry(job_id, name, os.getpid(), started, port, secrets.token_hex(32), given, door)
    return Registration(entry, opened, leaves_something)


def _open() -> tuple[socket.socket, str]:
    """A socket that listens, and its name; none if it has a port, for want of anything better."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}{_SOCKET}"
    if HAS_SOCKETS:
        try:
            return bind_private(_directory() / name, _BACKLOG), name
        except OSError as error:  # not every file system has sockets
            _log.debug("no socket at %s: %s", name, error)
    return socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG), ""


def _say_hidden(name: str, error: Exception) -> None:
    _log.warning("job %r cannot be listed or cancelled from outside: %s", name, error)


def entries() -> list[Entry]:
    """Jobs whose driver is alive, oldest first; files of dead drivers are removed."""
    if not _directory().exists():
        return []
    try:
        check_own(_directory())
    except OSError as error:
        raise ConfigError(str(error)) from error
    _remove_dead_sockets()
    found: list[Entry] = []
    for path in sorted(_directory().glob("*.json")):
        entry = _read(path)
        if entry is None:
            continue
        if _is_alive(entry.pid):
            found.append(entry)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda entry: entry.started_ms)


def _remove_dead_sockets() -> None:
    for path in _directory().glob(f"*{_SOCKET}"):
        pid = path.name.partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _warn_about_namesakes(entry: Entry) -> None:
    """Right if this driver takes over from the other, and a trap if it has another checkpoint directory."""
    others = [other.pid for other in entries() if other.id == entry.id]
    if others:
        _log.warning(
            "a job called %r already runs here (pid %s). If both have the same checkpoint directory, this "
            "one takes over; if not, both go on, and their sinks take each other's open transactions and "
            "staged files for those of an earlier attempt. Give one of them another name",
            entry.name,
            ", ".join(map(str, others)),
        )


def find(which: str) -> Entry:
    """The one running job with this id, beginning of an id, or name."""
    running, which = entries(), normal_name(which)
    matches = [entry for entry in running if which in (entry.id, entry.name)]
    matches = matches or [entry for entry in running if which and entry.id.startswith(which)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = "; ".join(f"{entry.id} ({entry.name}, pid {entry.pid})" for entry in matches)
        raise ConfigError(
            f"{which!r} fits {len(matches)} running jobs, say more exactly which: {listed}",
            code=Code.NO_SUCH_JOB,
        )
    listed = ", ".join(f"{entry.name} ({entry.id[:8]})" for entry in running) or "none"
    raise ConfigError(
        f"no running job is called {which!r} or has an id that begins so; running: {listed}",
        code=Code.NO_SUCH_JOB,
    )


def _directory() -> Path:
    return home() / "jobs"


def _write(entry: Entry) -> None:
    temporary = entry.path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(entry), file)
    temporary.rename(entry.path)


def _read(path: Path) -> Entry | None:
    """The entry in a file; ``None`` if it is gone, or is no entry of ours."""
    try:
        entry = Entry(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(entry.pid, int) or not isinstance(entry.socket, str) or "/" in entry.socket:
        return None
    name = f"{entry.id}-{entry.pid}"  # older drivers write it without the port
    return entry if path.name in (f"{name}.json", entry.path.name) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
