"""The jobs that run on this machine, as files: how the command line finds them.

Each driver writes ``$PENSTOCK_HOME/jobs/<job id>-<pid>-<door>.json`` for a job it runs, and removes it when
the job ends.  The directory is its user's only.  The file names a socket beside it, ``<pid>-<door>.sock``,
and the token to talk to it (see ``listener.py``).  Files of drivers that are gone go when jobs are listed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.coordinator.listener import Answer, Listener, ask
from penstock.coordinator.private import HAS_SOCKETS, check_own, make_private
from penstock.coordinator.request_futures import Ask, RemoteRequests
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError, TransportError
from penstock.core.job import normal_name
from penstock.storage.own_files import FILE, make_directory

_log = log_of(__name__)
_SOCKET = ".sock"


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
        return self._ask("status")

    def cancel(self) -> bool:
        """Ask for the end of the job; whether the driver took the request."""
        return self._ask("cancel") is not None

    def most_slots(self) -> int | None:
        """How many slots the job could have; ``None`` if its driver does not know, or does not answer."""
        return (self._ask("most_slots") or {}).get("slots")

    def parallelism_limit(self) -> tuple[int, str] | None:
        """The highest parallelism the job can go on with, and of which step; ``None``: any, or not known."""
        limit = (self._ask("parallelism_limit") or {}).get("limit")
        return None if limit is None else (limit[0], limit[1])

    def page_link(self) -> str | None:
        """An address of the job's page that lets one browser in; ``None`` if there is none."""
        return (self._ask("page") or {}).get("link") or None

    def events(self) -> list[dict[str, Any]] | None:
        """What happened to the job, oldest first; ``None`` if its driver does not answer."""
        return (self._ask("events") or {}).get("events")

    def request(self, kind: str, directory: str | None) -> dict[str, Any] | None:
        """Ask for a snapshot: its number, or an error; ``None`` if the driver does not answer."""
        return self._ask("snapshot", kind=kind, directory=directory)

    def outcome(self, number: str) -> dict[str, Any] | None:
        """How a request stands; ``None`` if the driver does not answer."""
        return self._ask("outcome", number=number)

    def _ask(self, request: str, **arguments: Any) -> dict[str, Any] | None:
        try:
            where = _directory() / self.socket if self.socket else self.port
            return ask(where, self.token, request, **arguments)
        except TransportError:
            return None


@dataclass(frozen=True, slots=True)
class Page:
    """A job's page and REST; empty where it has none."""

    url: str = ""
    token: str = ""
    link: Callable[[], str] = str
    """Makes an address that lets one browser in."""


class Registration:
    """A job of this process that others can find. Close it when the job ends."""

    def __init__(self, entry: Entry, listener: Listener, outcomes: RemoteRequests) -> None:
        self.entry = entry
        self._listener = listener
        self._outcomes = outcomes

    def close(self) -> None:
        """Be found no more, once all outcomes were told. Safe to repeat."""
        self._outcomes.linger()
        with contextlib.suppress(OSError):
            self.entry.path.unlink(missing_ok=True)
        self._listener.close()


def register(
    job_id: str,
    name: str,
    status: Callable[[], Mapping[str, Any]],
    cancel: Callable[[], object],
    snapshot: Ask | None = None,
    clock: Clock | None = None,
    most_slots: Callable[[], int | None] | None = None,
    parallelism_limit: tuple[int, str] | None = None,
    command: Mapping[str, Any] | None = None,
    page: Page | None = None,
    events: Callable[[], list[dict[str, Any]]] = list,
) -> Registration | None:
    """Make a job findable; ``None``, with a warning, where that cannot be: the job runs all the same."""
    outcomes = RemoteRequests(snapshot)

    def cancelling() -> Mapping[str, Any]:
        cancel()
        return status()

    shown = page or Page()
    token = secrets.token_hex(32)
    started = (clock or SystemClock()).now_ms()
    try:
        make_home()
        make_private(_directory())
        answers: dict[str, Answer] = {
            "status": status,
            "cancel": cancelling,
            "snapshot": outcomes.request,
            "outcome": outcomes.outcome,
            "most_slots": lambda: {"slots": most_slots() if most_slots is not None else None},
            "parallelism_limit": lambda: {"limit": parallelism_limit},
            "page": lambda: {"link": shown.link()},
            "events": lambda: {"events": events()},
        }
        listener, door = _listen(token, answers)
        given = None if command is None else dict(command)
        entry = Entry(
            job_id, name, os.getpid(), started, listener.port, token, given, door, shown.url, shown.token
        )
        _warn_about_namesakes(entry)
        _publish(entry, listener)
    except (OSError, ConfigError) as error:
        _log.warning("job %r cannot be listed or cancelled from outside: %s", name, error)
        return None
    return Registration(entry, listener, outcomes)


def _listen(token: str, answers: Mapping[str, Answer]) -> tuple[Listener, str]:
    """A listener, and the name of its socket; none if it has a port, for want of anything better."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}{_SOCKET}"
    if HAS_SOCKETS:
        try:
            return Listener(token, answers, path=_directory() / name), name
        except OSError as error:  # not every file system has sockets
            _log.debug("no socket at %s: %s", name, error)
    return Listener(token, answers), ""


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
        raise ConfigError(f"{which!r} fits {len(matches)} running jobs, say more exactly which: {listed}")
    listed = ", ".join(f"{entry.name} ({entry.id[:8]})" for entry in running) or "none"
    raise ConfigError(f"no running job is called {which!r} or has an id that begins so; running: {listed}")


def _directory() -> Path:
    return home() / "jobs"


def _publish(entry: Entry, listener: Listener) -> None:
    try:
        _write(entry)
    except OSError:
        listener.close()
        raise


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
