"""Directories for working files that do not outlive their process.

Each has a file that its process holds a lock on.  The system lets go of the lock however the process ends, so
a directory whose lock can be had was left behind, and whoever next needs a directory beside it removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import BinaryIO

from penstock.storage.own_files import DIRECTORY, FILE, make_directory

_LOCK = "owner"
_swept: set[tuple[int, Path, str]] = set()


class WorkPlace:
    """A directory that is this process's own until :meth:`remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._pid = os.getpid()

    @classmethod
    def make(cls, root: Path, prefix: str) -> WorkPlace:
        """A new directory below ``root``; what dead processes left there by this prefix is removed first."""
        make_directory(root)
        swept = (os.getpid(), root, prefix)
        if swept not in _swept:
            _swept.add(swept)
            sweep(root, prefix)
        while True:
            place = _claim(root / f"{prefix}{uuid.uuid4().hex[:16]}")
            if place is not None:
                return cls(*place)

    def remove(self) -> None:
        """Remove the directory. A forked process that inherited it leaves it alone."""
        if self._pid != os.getpid() or self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def default_base() -> Path:
    """The first of Spark's local directories if this is a Spark task, else where temporary files go."""
    spark = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    first = spark.split(",")[0].strip()
    return Path(first) if first else Path(tempfile.gettempdir())


def scratch_file() -> BinaryIO:
    """A file to write and read that has no name, and is gone when it is closed or its process ends."""
    base = default_base()
    make_directory(base)
    return tempfile.TemporaryFile(dir=base)


def sweep(root: Path, prefix: str) -> None:
    """Remove the directories of this user's processes that are gone; the place may be open to all users."""
    for directory in root.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if directory.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


def _claim(path: Path) -> tuple[Path, int] | None:
    """Make the directory and lock it; ``None`` if a sweep of another process came in between."""
    path.mkdir(DIRECTORY)
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, FILE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (path / _LOCK).exists():
            return path, lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None
