"""Which driver runs a job: the users of both hear of it when another takes the job over.

Nothing is decided by this; that is the journal's.  A name that cannot be written or read is no error.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable
from datetime import UTC, datetime

from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import FencedError, SnapshotError
from penstock.core.ids import Generation
from penstock.snapshot.journal import Entry, Unreadable
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import SnapshotStore

DRIVER = "_driver"
"""File below a job's root in which whoever runs the job says so, for people.  Nothing is decided by it."""
_DELETED = (
    "everything this driver wrote is gone: the checkpoint directory was deleted, emptied or mounted anew "
    "while the job ran. Leave it to the job as long as that runs; started again, the job goes on from what "
    "is there, or from a savepoint"
)


def what_happened(entries: Iterable[Entry], generation: Generation | None, driver: str | None) -> str:
    """Why the driver of ``generation`` does not own a journal that holds these entries.

    ``driver`` is who runs the job now, if that is known.
    """
    newer = any(
        isinstance(entry, Unreadable) or generation is None or entry.generation > generation
        for entry in entries
    )
    if not newer:
        return _DELETED
    who = driver or "another driver"
    return f"the job was taken over by {who}. Two drivers of one job must not run at once"


_log = log_of(__name__)
_PROCESS = re.compile(r"@(\S+), process (\d+)")


def this_driver(clock: Clock) -> str:
    """Who, where and since when."""
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    return f"{_user()}@{socket.gethostname()}, process {os.getpid()}, since {now:%Y-%m-%d %H:%M:%S} UTC"


class Signature:
    """The name of the driver that has a job, below the job's root; ``name`` is ours, if we have one."""

    def __init__(self, job_name: str, repository: Repository, name: str | None) -> None:
        self._job_name = job_name
        self._repository = repository
        self._name = name

    def sign(self) -> None:
        """The job is ours: say so, and whose it was."""
        if self._name is None:
            return
        root = self._repository.root
        before = _read(root)
        if before is not None and before != self._name:
            self._say_taken_over(before)
        try:
            root.write_file(DRIVER, [self._name.encode()])
        except (SnapshotError, OSError) as error:
            _log.info("the driver's name could not be written: %s", error)

    def remove(self) -> None:
        """The job has ended; no driver runs it, unless it is another driver's by now."""
        if self._name is None or _read(self._repository.root) != self._name:
            return
        try:
            self._repository.root.delete(DRIVER)
        except (SnapshotError, OSError) as error:
            _log.info("the driver's name could not be removed: %s", error)

    def explained(self, error: Exception | None) -> Exception | None:
        """An error that fenced this driver off, with who did; any other as it is."""
        if not isinstance(error, FencedError):
            return error
        driver = _read(self._repository.root)
        other = None if driver == self._name else driver
        try:
            why = what_happened(self._repository.load_entries(), self._repository.generation, other)
        except (SnapshotError, OSError) as unread:
            why = f"who does cannot be read: {unread}"
        return FencedError(f"{error}; {why}")

    def _say_taken_over(self, before: str) -> None:
        alive = _is_alive(before)
        if alive is False:
            _log.info("job %r was last run by %s, which ended without a word", self._job_name, before)
            return
        _log.warning(
            "job %r is taken over from %s, which %s: that driver stops when it notices. Two drivers of one "
            "job must not run at once; another job needs another name or checkpoint directory",
            self._job_name,
            before,
            "still runs" if alive else "may still run",
        )


def _is_alive(who: str) -> bool | None:
    """Whether the driver runs; ``None`` if it is on another machine, so that it cannot be told here."""
    found = _PROCESS.search(who)
    if found is None or found[1] != socket.gethostname():
        return None
    try:
        os.kill(int(found[2]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read(root: SnapshotStore) -> str | None:
    try:
        return root.read(DRIVER).decode(errors="replace") if root.exists(DRIVER) else None
    except (SnapshotError, OSError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
