"""What the log alone asks of the file system: a lock, and many pieces in one write."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.storage.own_files import make_directory, write_file

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
