"""The few things the log asks of the file system: a lock, durable small files, whole writes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.core.own_files import make_directory, open_file, sync_path, write_file

_LOCK = "lock"


@contextmanager
def partition_lock(directory: Path) -> Iterator[None]:
    """Hold the partition's lock: nobody else writes.

    The lock file is opened anew each time: a descriptor kept over a fork would share its lock with the
    child, and two processes would write at once.
    """
    fd = os.open(directory / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def if_unlocked(directory: Path) -> Iterator[bool]:
    """Keep writers out for a moment, if none is at work now; yields whether that is so. Never waits."""
    fd = os.open(directory / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def create_partition(directory: Path) -> None:
    """Make the directory of an empty partition."""
    make_directory(directory / "pending")
    write_file(directory / _LOCK, b"")


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with open_file(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_path(path.parent)


def write_all(fd: int, parts: Sequence[bytes | memoryview], position: int) -> int:
    """Write ``parts`` one after the other at ``position``: one system call unless the kernel cuts it.

    Returns the position behind them.
    """
    left = [memoryview(part).cast("B") for part in parts if len(part)]
    while left:
        written = os.pwritev(fd, left[:64], position)
        position += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]
    return position
