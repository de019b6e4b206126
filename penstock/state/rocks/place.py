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

from penstock.core.errors import ConfigError

PREFIX = "penstock-rocksdb-"
_LOCK = "owner"
_swept: set[tuple[int, Path]] = set()


class WorkPlace:
    """A directory that is this process's own until :meth:`remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._pid = os.getpid()

    @classmethod
    def make(cls, base: str | None) -> WorkPlace:
        """A new directory below ``base``; what dead processes left there is removed first."""
        root = default_base() if base is None else Path(base)
        try:
            root.mkdir(parents=True, exist_ok=True)
            if (os.getpid(), root) not in _swept:
                _swept.add((os.getpid(), root))
                sweep(root)
            while True:
                place = _claim(root / f"{PREFIX}{uuid.uuid4().hex[:16]}")
                if place is not None:
                    return cls(*place)
        except OSError as error:
            raise ConfigError(
                f"{root} cannot hold the working files of RocksDB ({error.strerror or error}); name another "
                "directory with state.backend.rocksdb.localdir"
            ) from error

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


def sweep(root: Path) -> None:
    """Remove the directories of processes that are gone."""
    for directory in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(directory / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


def _claim(path: Path) -> tuple[Path, int] | None:
    """Make the directory and lock it; ``None`` if a sweep of another process came in between."""
    path.mkdir()
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (path / _LOCK).exists():
            return path, lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None
