"""Directories and sockets of one user: somebody else can neither read, nor connect to, nor replace them."""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.storage.own_files import make_directory

HAS_SOCKETS = hasattr(socket, "AF_UNIX")
_LONGEST = 100
"""Bytes of a socket's path that fit into its address everywhere."""
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group; the numbers of users go up to 2**32."""
_ROOT = 0


def make_private(directory: Path) -> Path:
    """A directory for this user's eyes only, made if it is not there; ``OSError`` if it is not ours."""
    make_directory(directory)
    check_own(directory)
    if stat.S_IMODE(directory.stat().st_mode) & 0o077:
        directory.chmod(0o700)
    return directory


def check_own(directory: Path) -> None:
    """``PermissionError`` if a directory is a link, or somebody else's: what is in it cannot be believed."""
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode) or (hasattr(os, "getuid") and os.getuid() not in (found.st_uid, _ROOT)):
        raise PermissionError(
            f"{directory} belongs to another user; set PENSTOCK_HOME to a directory of yours"
        )


def bind_private(path: Path, backlog: int) -> socket.socket:
    """A socket that listens at ``path``, which must be in a private directory."""
    made = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as text:
            made.bind(text)
            Path(text).chmod(0o600)
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made


def connect_private(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the socket at ``path``."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(timeout_s)
    try:
        with _short(path) as text:
            made.connect(text)
    except OSError:
        made.close()
        raise
    return made


def is_own(connection: socket.socket) -> bool:
    """Whether a process of this user has called; ``True`` where the system does not say."""
    if not HAS_SOCKETS or connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return True
    try:
        said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return False
    _, user, _ = _CREDENTIALS.unpack(said)
    return user in (os.getuid(), _ROOT)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """``path`` in a form that fits into an address; where none does, ``OSError``."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
