"""The files of an archive directory: ``<job id>-<end in ms>.json``, one for each run that has ended.

Names of Flink's own archives, the job's id alone, are known as well; nothing else that lies there is looked
at.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from penstock.storage.contract import MissingFileError
from penstock.storage.places import is_url, join, storage_of

_NAME = re.compile(r"([0-9a-f]{32})(?:-([0-9]{1,15})\.json)?")


class ArchiveFile(NamedTuple):
    """A file that may hold a job."""

    path: str
    name: str
    size: int
    job_id: str
    ended_ms: int
    """As its name says; 0 if it does not."""


def archive_path(directory: str, job_id: str, ended_ms: int) -> str:
    """Where a job is archived."""
    return join(directory, f"{job_id}-{ended_ms}.json")


def listed(directory: str) -> list[ArchiveFile]:
    """What is right in a directory, the newest first; nothing if there is no directory yet."""
    try:
        found = _remote(directory) if is_url(directory) else _local(directory)
    except (FileNotFoundError, MissingFileError):
        return []
    return sorted(found, key=lambda file: (file.ended_ms, file.name), reverse=True)


def remove_beyond(directory: str, kept: int) -> None:
    """Delete the oldest files of ours, but for so many; those of others stay."""
    storage = storage_of(directory, own=True)
    for file in [file for file in listed(directory) if file.ended_ms][kept:]:
        storage.remove(file.path)


def _local(directory: str) -> list[ArchiveFile]:
    """One level only, and no links: somebody may have named a directory that holds much else."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            known = _NAME.fullmatch(entry.name)
            if known is not None and entry.is_file(follow_symlinks=False):
                size = entry.stat(follow_symlinks=False).st_size
                found.append(_file(directory, entry.name, size, known))
    return found


def _remote(directory: str) -> list[ArchiveFile]:
    beginning = f"{directory.rstrip('/')}/"
    named = [(path.removeprefix(beginning), size) for path, size in storage_of(directory).find(directory)]
    known = [(name, size, _NAME.fullmatch(name)) for name, size in named]
    return [_file(directory, name, size, match) for name, size, match in known if match is not None]


def _file(directory: str, name: str, size: int, known: re.Match[str]) -> ArchiveFile:
    return ArchiveFile(join(directory, name), name, size, known[1], int(known[2] or 0))
