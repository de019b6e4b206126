"""The jobs that run on this machine, as files: how the command line finds them.

Each driver writes ``$PENSTOCK_HOME/jobs/<job id>-<pid>-<port>.json`` for a job it runs, readable by its user
only, and removes it when the job ends.  The file names a loopback port and the token to talk to it
(see ``listener.py``).  Files of drivers that are gone are removed by whoever lists.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.coordinator.listener import Answer, Listener, ask
from penstock.coordinator.outcomes import Ask, Outcomes
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError, TransportError
from penstock.core.job import normal_name
from penstock.core.own_files import FILE, make_directory

_log = logging.getLogger("penstock")

command: dict[str, Any] | None = None
"""How this process was started, if that was ``penstock run``: its options, to start the job again."""


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
    token: str
    command: dict[str, Any] | None = None
    """Options of the ``penstock run`` that started the driver."""

    def __repr__(self) -> str:
        return f"Entry({self.id}, {self.name!r}, pid {self.pid})"

    @property
    def path(self) -> Path:
        """Where the file is."""
        return _directory() / f"{self.id}-{self.pid}-{self.port}.json"

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

    def request(self, kind: str, directory: str | None) -> dict[str, Any] | None:
        """Ask for a snapshot: its number, or an error; ``None`` if the driver does not answer."""
        return self._ask("snapshot", kind=kind, directory=directory)

    def outcome(self, number: str) -> dict[str, Any] | None:
        """How a request stands; ``None`` if the driver does not answer."""
        return self._ask("outcome", number=number)

    def _ask(self, request: str, **arguments: Any) -> dict[str, Any] | None:
        try:
            return ask(self.port, self.token, request, **arguments)
        except TransportError:
            return None


class Registration:
    """A job of this process that others can find. Close it when the job ends."""

    def __init__(self, entry: Entry, listener: Listener, outcomes: Outcomes) -> None:
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
) -> Registration | None:
    """Make a job findable; ``None``, with a warning, where that cannot be: the job runs all the same."""
    outcomes = Outcomes(snapshot)

    def cancelling() -> Mapping[str, Any]:
        cancel()
        return status()

    token = secrets.token_hex(32)
    started = (clock or SystemClock()).now_ms()
    try:
        make_directory(_directory())
        answers: dict[str, Answer] = {
            "status": status,
            "cancel": cancelling,
            "snapshot": outcomes.request,
            "outcome": outcomes.outcome,
            "most_slots": lambda: {"slots": most_slots() if most_slots is not None else None},
            "parallelism_limit": lambda: {"limit": parallelism_limit},
        }
        listener = Listener(token, answers)
        entry = Entry(job_id, name, os.getpid(), started, listener.port, token, command)
        _warn_about_namesakes(entry)
        _write(entry)
    except OSError as error:
        _log.warning("job %r cannot be listed or cancelled from outside: %s", name, error)
        return None
    return Registration(entry, listener, outcomes)


def entries() -> list[Entry]:
    """Jobs whose driver is alive, oldest first; files of dead drivers are removed."""
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
    name = f"{entry.id}-{entry.pid}"  # older drivers write it without the port
    ours = path.name in (f"{name}.json", entry.path.name)
    return entry if isinstance(entry.pid, int) and ours else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
