"""Files and directories for this user's eyes only, whatever the umask says.

State holds what the records held, and who may write to a directory of snapshots chooses what is restored
from it.  So everything that the engine keeps on a local file system is made here: directories with mode
0700, files with 0600.  What a user's sink writes is for others to read, and is made as the umask says.

A file that holds a secret key is read only if its owner alone may do so (:func:`read_key`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.storage.contract import temporary_name

DIRECTORY = 0o700
FILE = 0o600
_PIECE = 1 << 20


def make_directory(path: Path, mode: int = DIRECTORY) -> list[Path]:
    """Make a directory and those above it that are missing; which were made, the topmost first."""
    if path.is_dir():
        return []
    made = make_directory(path.parent, mode)
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return made
    return [*made, path]


def open_file(path: Path, mode: str) -> BinaryIO:
    """``open`` for writing bytes; a file that is made by it is for its owner only."""
    return open(path, mode, opener=_opener)  # type: ignore[return-value]


def sync_path(path: Path) -> None:
    """Wait until a file's bytes, or the names that were made or removed in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, some at a time."""
    with path.open("rb") as file:
        while some := file.read(_PIECE):
            yield some


def write_file(path: Path, data: bytes) -> None:
    """Make a file of these bytes.  An error names the file: a full disk does not say which one it is."""
    try:
        with open_file(path, "wb") as file:
            file.write(data)
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def writing(
    path: Path, opened: Callable[[Path, str], BinaryIO] = open_file, durable: bool = True
) -> Iterator[BinaryIO]:
    """A file that is seen under its name only when the block has ended well; others may make it, too."""
    draft = path.with_name(temporary_name())
    try:
        with opened(draft, "xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        sync_path(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, whole or not at all."""
    with writing(path) as file:
        file.write(content)


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a file in this way that need not outlive the machine."""
    with writing(path, durable=False) as file:
        write(file)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)


_LEAST_BYTES = 32


def read_key(path: str, setting: str) -> bytes:
    """The key in a file; ``setting`` is what named it, for errors."""
    way_out = (
        f"make one with: (umask 077; head -c 32 /dev/urandom > {path}), and keep a copy where it is as safe"
    )
    try:
        with Path(path).open("rb") as file:
            found = os.fstat(file.fileno())
            key = file.read()
    except OSError as error:
        raise ConfigError(
            f"{setting}: the key file {path} cannot be read ({error.strerror}); {way_out}", code=Code.KEY_FILE
        ) from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{setting}: the key file {path} is not yours alone (mode {stat.S_IMODE(found.st_mode):o}, user "
            f"{found.st_uid}): who can read it can sign anything. Set it right with chown and chmod 600, or, "
            "if others may have read it, make a new one",
            code=Code.KEY_FILE,
        )
    if len(key) < _LEAST_BYTES:
        raise ConfigError(
            f"{setting}: the key file {path} holds {len(key)} bytes, and a key has at least {_LEAST_BYTES}; "
            f"{way_out}",
            code=Code.KEY_FILE,
        )
    return key
