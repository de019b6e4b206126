"""How a file is created only if its name is free: of several creators one succeeds.  Decided here alone.

Each kind of file system has its own way:

* a local one makes a hard link of a synced file, which gives the complete file or fails because the name is
  taken; where there are no hard links a file is opened with mode ``xb``, and a crash may leave it incomplete;
* object stores write conditionally (``If-None-Match: *``), and the file is there whole or not at all;
* HDFS by its REST interface renames a complete file, which fails if the new name is taken;
* the others that fsspec knows create with mode ``xb``, which may show a file that is not complete yet.

The trap: a store may take the call and overwrite.  So whoever relies on this tries it first, see
:func:`is_exclusive`.  ``hdfs:`` through libhdfs has neither way: no mode ``xb``, and a client that deletes
the taken name and renames again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from penstock.storage.contract import temporary_name
from penstock.storage.own_files import sync_path

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs"}
_RENAMING = {"webhdfs", "webHDFS"}


def is_exclusive(create: Callable[[bytes], bool], remove: Callable[[], object]) -> bool:
    """Whether a second creation of a name that nobody else uses is refused; it is removed again."""
    try:
        return create(b"1") and not create(b"2")
    except (NotImplementedError, ValueError):
        return False
    finally:
        remove()


def create_local(target: Path, data: bytes, opened: Callable[[Path, str], BinaryIO]) -> bool:
    """Create without looking first; whether it was us."""
    try:
        return link_new(target, data, opened)
    except NotImplementedError:
        pass
    try:
        _write_synced(target, data, opened)
    except FileExistsError:
        return False
    sync_path(target.parent)
    return True


def link_new(target: Path, data: bytes, opened: Callable[[Path, str], BinaryIO]) -> bool:
    """The same, if there are hard links; ``NotImplementedError`` if not."""
    draft = target.with_name(temporary_name())
    try:
        _write_synced(draft, data, opened)
        created = _link(draft, target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    sync_path(target.parent)
    return created


def create_remote(fs: Any, path: str, data: bytes) -> bool:
    """Create without looking first; whether it was us. ``path`` is without the protocol."""
    if renames_onto_free_names(fs):
        return _create_by_rename(fs, path, data)
    try:
        if is_object_store(fs):
            fs.pipe_file(path, data, mode="create")  # mode xb has no condition for empty files
        else:
            with fs.open(path, "xb") as file:
                file.write(data)
    except FileExistsError:
        return False
    return True


def rename_new(fs: Any, source: str, target: str) -> bool:
    """Rename on a store that does so only onto a free name; whether it did.

    WebHDFS answers a refused rename with a false that fsspec does not pass on, so the names must tell.
    """
    fs.mv(source, target)
    if fs.exists(source):
        return False
    if not fs.exists(target):
        raise FileNotFoundError(source)
    return True


def renames_onto_free_names(fs: Any) -> bool:
    """Whether :func:`rename_new` is for this store."""
    return not _RENAMING.isdisjoint(_protocols(fs))


def is_object_store(fs: Any) -> bool:
    """A store without directories: making one costs requests, or would create a bucket."""
    return not _OBJECT_STORES.isdisjoint(_protocols(fs))


def _link(draft: Path, target: Path) -> bool:
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise NotImplementedError("the file system has no hard links") from error
    return True


def _write_synced(place: Path, data: bytes, opened: Callable[[Path, str], BinaryIO]) -> None:
    with opened(place, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _create_by_rename(fs: Any, path: str, data: bytes) -> bool:
    temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
    try:
        with fs.open(temporary, "wb") as file:
            file.write(data)
        return rename_new(fs, temporary, path)
    finally:
        with suppress(FileNotFoundError):
            fs.rm_file(temporary)


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
