"""Files below a directory: which of them travel, what they amount to, and all of them in one archive."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.storage.own_files import write_whole

LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"}
)
_ENVIRONMENT = "pyvenv.cfg"
COMPILED = (".so", ".pyd", ".dylib", ".pyc")
_PIECE = 1 << 20
_STORED = (".whl", ".zip", ".gz", ".bz2", ".xz", ".egg", ".zst")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Member:
    """A file that travels: its name in the archive, with slashes, and where it is."""

    name: str
    path: Path
    size: int
    executable: bool
    modified_ns: int


def members(top: Path, name: str = "") -> Iterator[Member]:
    """The files below a directory, or the file itself, in order; links are followed, each directory once.

    Caches, repositories and virtual environments are left out.
    """
    if top.is_file():
        yield _member(top, name or top.name)
        return
    yield from _below(str(top), name, frozenset())


def _below(directory: str, name: str, above: frozenset[str]) -> Iterator[Member]:
    here = os.path.realpath(directory)
    if here in above:
        return
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if name and any(entry.name == _ENVIRONMENT for entry in found):
        return
    for entry in found:
        inner = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir():
            if entry.name not in LEFT_OUT:
                yield from _below(entry.path, inner, above | {here})
        elif entry.is_file():
            yield _member(Path(entry.path), inner)


def _member(path: Path, name: str) -> Member:
    known = path.stat()
    executable = bool(known.st_mode & stat.S_IXUSR)
    return Member(name, path, known.st_size, executable, known.st_mtime_ns)


def digest(found: list[Member]) -> str:
    """What files amount to: their names, contents and whether they can be run."""
    whole = hashlib.sha256()
    for member in found:
        whole.update(f"{member.name}\0{int(member.executable)}\0{file_digest(member.path)}\n".encode())
    return whole.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(found: list[Member]) -> str:
    """Changes when a file does; reads none of them."""
    told = "\n".join(f"{one.path}\0{one.size}\0{one.modified_ns}" for one in found)
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


def is_compiled(found: list[Member]) -> bool:
    """Whether some of it fits only one kind of interpreter."""
    return any(member.name.endswith(COMPILED) or ".so." in member.name for member in found)


def pack(found: list[Member], target: Path) -> None:
    """Write an archive, for its owner's eyes; the same files give the same bytes."""
    write_whole(target, lambda file: _zip(found, file))


def _zip(found: list[Member], file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for member in found:
            entry = zipfile.ZipInfo(member.name, _EPOCH)
            entry.external_attr = (stat.S_IFREG | (0o700 if member.executable else 0o600)) << 16
            plain = member.name.endswith(_STORED)
            entry.compress_type = zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED
            with member.path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as into:
                while piece := source.read(_PIECE):
                    into.write(piece)
