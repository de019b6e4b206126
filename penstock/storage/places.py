"""Paths and URLs, and the storage that each belongs to.

``file:`` URLs are local paths; every other scheme (``s3:``, ``webhdfs:``, ``memory:``, ...) goes to the
fsspec package that handles it, unless :func:`register_scheme` was told of it.  ``normalise`` makes a path
absolute on the driver, because a relative one would mean something else in a slot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from penstock.storage.contract import Storage
from penstock.storage.local import LocalStorage
from penstock.storage.remote import RemoteStorage

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_FILE_URL = re.compile(r"file:(//localhost(?=/)|/+(?=/))?")
_openers: dict[str, Callable[[], Storage]] = {}


def storage_of(path: str, own: bool = False) -> Storage:
    """The storage that a normalised path lives in; ``own`` if what is made there is for its owner only."""
    if not is_url(path):
        return LocalStorage(own)
    opener = _openers.get(path.partition(":")[0])
    return RemoteStorage(path) if opener is None else opener()


def register_scheme(scheme: str, opener: Callable[[], Storage]) -> None:
    """Have ``opener`` give the storage for the URLs of a scheme, as the simulator does with its own."""
    _openers[scheme] = opener


def normalise(path: str | os.PathLike[str]) -> str:
    """The absolute local path, or the URL as it is."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = unquote(_FILE_URL.sub("", text, count=1))
    elif is_url(text):
        return text if text.endswith("://") else text.rstrip("/")
    return str(Path(text).absolute())


def is_url(path: str) -> bool:
    """Whether the path names another file system than the local one."""
    return _URL.match(path) is not None


def url_of(path: str) -> str:
    """The URL of a normalised path."""
    return Path(path).as_uri() if path.startswith("/") else path


def join(base: str, *names: str) -> str:
    """A path below ``base``; empty names are left out."""
    inner = "/".join(name for name in names if name)
    if base.endswith("://"):
        return base + inner
    return f"{base.rstrip('/')}/{inner}" if inner else base.rstrip("/")
