"""Archives of the files that travel: packed below a directory, unpacked once, never beside their place."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import struct
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.core.errors import ConfigError
from penstock.storage.own_files import DIRECTORY, FILE, make_directory, write_whole

LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"}
)
_ENVIRONMENT = "pyvenv.cfg"
COMPILED = (".so", ".pyd", ".dylib", ".pyc")
_PIECE = 1 << 20
_STORED = (".whl", ".zip", ".gz", ".bz2", ".xz", ".egg", ".zst")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LONGEST_LINK = 4096
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    tarfile.TarError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
)
"""What reading bytes that are no archive, or a damaged or locked one, comes to."""
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_WAY_OUT = (
    "Members must stay within the archive; environments with links to an interpreter outside are packed with "
    "conda-pack, or made with 'python -m venv --copies'"
)


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


def once(place: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The directory of that name in ``place``; if there is none, ``make`` fills one.

    Whoever comes while it is made waits for it; what is there is always whole.
    """
    make_directory(place)
    done = place / name
    if done.is_dir():
        return done
    lock = os.open(place / f"{name}.lock", os.O_RDWR | os.O_CREAT, FILE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_dir():
            growing = place / f"{name}.{uuid.uuid4().hex[:8]}"
            growing.mkdir(DIRECTORY)
            try:
                make(growing)
                growing.rename(done)
            except BaseException:
                shutil.rmtree(growing, ignore_errors=True)
                raise
    finally:
        os.close(lock)
    return done


def unpack(archive: Path, target: Path, called: str | None = None) -> None:
    """Put the members of a zip or tar file below ``target``; ``called`` is its name for people."""
    name = called or str(archive)
    try:
        if name.lower().endswith(_TARS) or (tarfile.is_tarfile(archive) and not zipfile.is_zipfile(archive)):
            _untar(archive, target)
        else:
            _unzip(archive, target)
    except _Refused as error:
        raise ConfigError(f"the archive {name} is refused: {error}") from None
    except _DAMAGE as error:
        raise ConfigError(
            f"the archive {name} cannot be unpacked ({_first_line(error)}): zip and tar files can (.zip, "
            ".whl, .egg, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), without a password"
        ) from None
    except OSError as error:  # also of bytes that make no sense
        raise ConfigError(f"the archive {name} cannot be unpacked: {error}") from error


def _first_line(error: Exception) -> str:
    """What was tried in vain with each kind of archive stands behind it."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(": ")


class _Refused(Exception):
    """A member that would lead somewhere else, or more of them than there is room for."""


class _Room:
    """What is free where an archive is unpacked: it must not fill the disk that others write to as well."""

    def __init__(self, target: Path) -> None:
        self._free = self._left = shutil.disk_usage(target).free

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Refused(
                f"what it holds takes more than the {self._free >> 20} MB that are free where it is "
                "unpacked; make room, have Spark use another disk (spark.local.dir), or leave out what is "
                "not needed"
            )


def _untar(archive: Path, target: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise _Refused(
            "this Python cannot tell harmless members of tar files from others; use 3.11.4 or newer"
        )
    make_directory(target)
    room = _Room(target)

    def harmless(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        room.take(member.size)
        # Python asks where links lead, and older ones can be led astray: nothing goes through a link.
        if any(_through_link(target, target / name) for name in _names_of(member)):
            raise _Refused(
                f"its member {member.name!r} lies behind a link, or is there twice, once as a link"
            )
        return tarfile.data_filter(member, path)

    with tarfile.open(archive) as members:
        try:
            members.extractall(target, filter=harmless)
        except tarfile.FilterError as error:
            raise _Refused(f"{error}. {_WAY_OUT}") from None
    _keep_private(target)


def _names_of(member: tarfile.TarInfo) -> tuple[str, ...]:
    return (member.name, member.linkname) if member.islnk() else (member.name,)


def _unzip(archive: Path, target: Path) -> None:
    make_directory(target)
    links: list[tuple[Path, str]] = []
    with zipfile.ZipFile(archive) as members:
        _Room(target).take(sum(entry.file_size for entry in members.infolist()))
        for entry in members.infolist():
            path = _inside(target, entry.filename)
            mode = entry.external_attr >> 16
            if stat.S_ISLNK(mode):
                if entry.file_size > _LONGEST_LINK:
                    raise _Refused(f"its link {entry.filename!r} leads nowhere: it is longer than a path")
                links.append((path, os.fsdecode(members.read(entry))))
            elif entry.is_dir():
                make_directory(path)
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise _Refused(f"{entry.filename!r} is neither file, directory nor link")
            else:
                _write(members, entry, path, bool(mode & stat.S_IXUSR))
    # Last, so that nothing is written through one; and looked at when all are there, for they may lead on.
    for path, leads_to in links:
        _link(target, path, leads_to)
    for path, leads_to in links:
        _check_end(target, path, leads_to)


def _inside(target: Path, name: str) -> Path:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
        raise _Refused(f"its member {name!r} leads out of it. {_WAY_OUT}")
    return target.joinpath(*parts)


def _write(members: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, executable: bool) -> None:
    make_directory(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = os.open(path, flags, 0o700 if executable else 0o600)
    with os.fdopen(opened, "wb") as into, members.open(entry) as source:
        shutil.copyfileobj(source, into, _PIECE)


def _link(target: Path, path: Path, leads_to: str) -> None:
    if Path(leads_to).is_absolute():
        raise _Refused(f"its link {path.relative_to(target)} leads out of it, to {leads_to!r}. {_WAY_OUT}")
    if os.path.lexists(path) or _through_link(target, path.parent):
        raise _Refused(f"it has {path.relative_to(target)} twice, once as a link")
    make_directory(path.parent)
    path.symlink_to(leads_to)


def _through_link(target: Path, directory: Path) -> bool:
    """Whether a link stands on the way to something that is yet to be made, or in its place."""
    return any(
        above.is_symlink() for above in (directory, *directory.parents) if above.is_relative_to(target)
    )


def _check_end(target: Path, path: Path, leads_to: str) -> None:
    inside = os.path.realpath(target)
    if os.path.commonpath([inside, os.path.realpath(path)]) != inside:
        raise _Refused(f"its link {path.relative_to(target)} leads out of it, to {leads_to!r}. {_WAY_OUT}")


def _keep_private(target: Path) -> None:
    """Directories for the owner only: what is below them is then, too."""
    with contextlib.suppress(OSError):
        target.chmod(DIRECTORY)
