"""Names inside a snapshot store: relative, POSIX, and unable to leave it.

Pure.  A path that comes out of a manifest is checked here before any store sees it.
"""

from __future__ import annotations

import re

from penstock.core.errors import SnapshotError
from penstock.core.ids import Epoch

METADATA = "_metadata"
"""Name of the manifest inside its directory; a contested one has the generation behind it."""

JOURNAL = "journal"
SHARED = "shared"

_CHECKPOINT = re.compile(r"chk-([0-9]{1,18})", re.ASCII)
_METADATA_NAME = re.compile(r"_metadata(?:-([0-9]{1,18}))?", re.ASCII)


def problem_with(path: str) -> str | None:
    """Why ``path`` cannot be used inside a store, or ``None`` if it can."""
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute"
    if "\\" in path or "\0" in path or "\n" in path:
        return "it contains a backslash, a zero byte or a line break"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it has an empty part, '.' or '..'"
    return None


def check_path(path: str) -> str:
    """``path`` itself, if it can be used."""
    problem = problem_with(path)
    if problem is not None:
        raise SnapshotError(f"{path!r} cannot be a path inside a snapshot store: {problem}")
    return path


def checkpoint_directory(epoch: Epoch) -> str:
    """Directory of a checkpoint, below the job's root."""
    return f"chk-{epoch}"


def epoch_of(path: str) -> Epoch | None:
    """The epoch whose checkpoint directory ``path`` is in, if it is in one."""
    found = _CHECKPOINT.fullmatch(path.split("/", 1)[0])
    return None if found is None else Epoch(int(found.group(1)))


def is_manifest(path: str) -> bool:
    """Whether the file name is one a manifest has."""
    return _METADATA_NAME.fullmatch(path.rsplit("/", 1)[-1]) is not None


def manifest_rank(path: str) -> int:
    """Order among the manifests of one directory: the one of the newest generation is highest."""
    found = _METADATA_NAME.fullmatch(path.rsplit("/", 1)[-1])
    return -1 if found is None or found.group(1) is None else int(found.group(1))
