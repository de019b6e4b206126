"""The archived jobs of some directories, read as they appear.

A file is read once; what is no archive is remembered with the reason and harms nothing else.  One thread
looks at the directories at a time, for a while and not too often; whoever asks meanwhile gets what is known.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.clock import Clock
from penstock.core.discreet import discreet, shown
from penstock.rest.archive import MOST_BYTES
from penstock.rest.archive_files import ArchiveFile, listed
from penstock.rest.archived_job import ArchivedJob, NoArchiveError, read_archive
from penstock.rest.look import Refused
from penstock.storage.contract import first_line
from penstock.storage.places import normalise, storage_of

MOST_LISTED = 1000
LOOK_AGAIN_S = 2.0
READ_FOR_S = 3.0
"""How long one look reads files that are new; the others come with the next."""
_OPEN = 4
"""Jobs whose answers are kept in memory."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a file was found to hold: a job, without its answers, or the reason why not."""

    file: ArchiveFile
    job: ArchivedJob | None
    why_not: str = ""


@dataclass(slots=True)
class _Directory:
    path: str
    known: dict[tuple[str, int], _Known] = field(default_factory=dict)
    """By path and size: a file that is written once has one size."""
    error: str = ""
    unread: int = 0
    more: int = 0


class Archives:
    """Thread-safe."""

    def __init__(self, directories: Sequence[str], clock: Clock) -> None:
        self._directories = [_Directory(path) for path in dict.fromkeys(map(normalise, directories))]
        self._clock = clock
        self._looking = threading.Lock()
        self._again = clock.monotonic()
        self._has_looked = False
        self._opened: OrderedDict[str, ArchivedJob] = OrderedDict()
        self._opening = threading.Lock()

    def jobs(self) -> list[ArchivedJob]:
        """All that are known, without their answers."""
        self._look()
        return [one.job for _, one in self._known() if one.job is not None]

    def report(self) -> list[dict[str, Any]]:
        """Each directory: what is wrong with it, and which of its files are shown to nobody."""
        self._look()
        return [
            {
                "directory": discreet(directory.path),
                "error": directory.error,
                "unread": directory.unread,
                "more": directory.more,
                "refused": [
                    {"file": one.file.name, "reason": one.why_not}
                    for one in list(directory.known.values())
                    if one.job is None
                ],
            }
            for directory in self._directories
        ]

    def open(self, key: str) -> ArchivedJob | None:
        """The run with this key and its answers; ``None`` if there is none."""
        with self._opening:
            if key in self._opened:
                self._opened.move_to_end(key)
                return self._opened[key]
        self._look()
        file = next(
            (one.file for _, one in self._known() if one.job is not None and one.job.key == key), None
        )
        if file is None:
            return None
        try:
            job = _read(file)
        except Exception as error:  # whatever a store raises
            raise Refused(
                502, f"the archive of the job cannot be read: {shown(first_line(error))}"
            ) from error
        with self._opening:
            self._opened[key] = job
            while len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        return job

    def look_soon(self) -> None:
        """Something has ended: whoever asks next has the directories looked at."""
        self._again = self._clock.monotonic()

    def _known(self) -> list[tuple[_Directory, _Known]]:
        return [(directory, one) for directory in self._directories for one in list(directory.known.values())]

    def _look(self) -> None:
        if not self._looking.acquire(blocking=not self._has_looked):
            return
        try:
            now = self._clock.monotonic()
            if now >= self._again:
                for directory in self._directories:
                    _refresh(directory, self._clock, now + READ_FOR_S)
                self._has_looked = True
                self._again = self._clock.monotonic() + LOOK_AGAIN_S
        finally:
            self._looking.release()


def _refresh(directory: _Directory, clock: Clock, until: float) -> None:
    try:
        found = listed(directory.path)
    except Exception as error:  # whatever a store raises; what was known stays
        directory.error = shown(first_line(error))
        return
    directory.error = ""
    directory.more = max(0, len(found) - MOST_LISTED)
    kept: dict[tuple[str, int], _Known] = {}
    unread = 0
    for file in found[:MOST_LISTED]:
        known = directory.known.get((file.path, file.size))
        if known is None and clock.monotonic() <= until:
            known = _look_into(directory, file)
        if known is None:
            unread += 1
        else:
            kept[file.path, file.size] = known
    directory.known, directory.unread = kept, unread


def _look_into(directory: _Directory, file: ArchiveFile) -> _Known | None:
    """``None`` if it could not be read now: it is tried again."""
    try:
        job = _read(file)
    except NoArchiveError as error:
        return _Known(file, None, str(error))
    except Exception as error:  # whatever a store raises
        directory.error = f"{file.name}: {shown(first_line(error))}"
        return None
    return _Known(file, ArchivedJob(job.key, job.line, {}))


def _read(file: ArchiveFile) -> ArchivedJob:
    if file.size > MOST_BYTES:
        raise NoArchiveError(f"it has {file.size:,} bytes, and an archive {MOST_BYTES:,} at most")
    return read_archive(storage_of(file.path).read(file.path, 0, file.size), file.job_id)
