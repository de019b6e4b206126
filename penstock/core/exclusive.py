"""Files of a remote store that are created only if their name is free: of several creators one succeeds.

Each kind of store has its own way, given an fsspec file system:

* object stores write conditionally (``If-None-Match: *``), and the file is there whole or not at all;
* HDFS by its REST interface renames a complete file, which fails if the new name is taken;
* the others create with mode ``xb``, which may show a file that is not complete yet.

The trap: a store may take the call and overwrite.  So whoever relies on this tries it first, see
:func:`is_exclusive`.  ``hdfs:`` through libhdfs has neither way: no mode ``xb``, and a client that deletes
the taken name and renames again.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs"}
_RENAMING = {"webhdfs", "webHDFS"}


def create_new(fs: Any, path: str, data: bytes) -> bool:
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


def is_exclusive(fs: Any, probe: str) -> bool:
    """Whether a second creation of ``probe``, a name that nobody uses, is refused; it is removed again."""
    try:
        return create_new(fs, probe, b"1") and not create_new(fs, probe, b"2")
    except (NotImplementedError, ValueError):
        return False
    finally:
        with suppress(FileNotFoundError):
            fs.rm_file(probe)


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


def _create_by_rename(fs: Any, path: str, data: bytes) -> bool:
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
    try:
        with fs.open(temporary, "wb") as file:
            file.write(data)
        return rename_new(fs, temporary, path)
    finally:
        with suppress(FileNotFoundError):
            fs.rm_file(temporary)


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
