"""A manifest beside plain files, in the form that Spark's readers follow: whole epochs appear at once.

Spark's own file stream sink keeps a log ``_spark_metadata`` in its output directory, and whoever reads such a
directory with Spark sees the files that the log lists, and no others.  We keep the same log.  Its entries
are files ``0``, ``1``, ... without a gap: a line ``v1``, then one JSON object per data file.  Every tenth is
named ``9.compact``, ``19.compact``, ... and lists everything so far, so a reader opens ten entries at most.

The invariant: a data file is listed once, in an entry with all the others of its epoch.  A number is created
only if it is free, by somebody who has read all entries before it; so of two writers that append at once one
fails, looks again, and goes behind the other.  Entries never change; those before the last but one compact
entry are deleted.  A driver that slept meanwhile might create such a number again, for nobody to read: that
is why an append is believed only when a look at the log finds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from penstock.connectors.files.discovery import find_files
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.storage.places import is_url, join, storage_of

DIRECTORY = "_spark_metadata"
_MARK = ".penstock"
"""A file in the log's directory that says whose log it is; Spark looks at numbers only."""
_VERSION = "v1"
_COMPACT = ".compact"
_INTERVAL = 10
"""Spark's own default: a reader that finds no compact entry yet takes it for granted."""
_TRIES = 10


class ManifestPlace(NamedTuple):
    """A directory with a manifest, and the URL that Spark's readers know the directory by."""

    base: str
    url: str


class Manifest:
    """The log of one directory. Lives on the driver; not for several threads."""

    def __init__(self, place: ManifestPlace, clock: Clock | None = None) -> None:
        self._base, self._url = place
        self._storage = storage_of(self._base)
        self._log = join(self._base, DIRECTORY)
        self._clock = clock or SystemClock()
        self._last = -1
        """Number of the newest entry that was read or written."""
        self._lines: dict[str, str] = {}
        """What the entries up to there list: URL to line."""
        self._digest = b""
        """Of the newest entry: somebody may remove the log, and a job that starts makes another one."""

    def check(self) -> None:
        """Before the job starts: refuse what cannot work, and begin the log if there is none."""
        if self._numbers() and not self._storage.exists(join(self._log, _MARK)):
            raise ConfigError(
                f"{self._log!r} was written by Spark's own streaming, which would take our entries for its "
                "own and drop output. Write to another directory; or, if that query never runs again, create "
                f"an empty file {_MARK!r} in there, and this job goes on behind its entries."
            )
        if not self._storage.creates_exclusively(self._base):
            raise ConfigError(
                f"{self._base!r} cannot have a manifest: its file system has no exclusive creation of files "
                "(locally hard links, on S3 conditional writes, on HDFS webhdfs: instead of hdfs:). Use "
                "another one, or leave out the manifest."
            )
        self._begin()
        inside = unquote(f"{self._url}/")
        other = next((url for url in self._lines if not unquote(url).startswith(inside)), None)
        if other is not None:
            raise ConfigError(
                f"{self._log!r} lists {other!r}, which is not below {self._url!r}: the directory was moved, "
                "or the sink's manifest is read by another URL now. Remove the log, and the next start makes "
                "a new one that lists all files of the directory."
            )

    def _begin(self) -> None:
        """Make the first entry if there is none: it lists the files that are there.

        There must be one, if only an empty one, before files of an epoch get their final names: else those of
        an epoch that was interrupted would be taken for old ones.
        """
        self._look()
        if self._last < 0:
            # A directory of an object store without files is not there.
            old = find_files(self._base) if self._storage.exists(self._base) else []
            self._storage.create_new(join(self._log, _MARK), b"")
            self._append({self._url_of(path): self._line(path, size) for path, size in old})

    def add(self, paths: Sequence[str]) -> bool:
        """List the files that are not listed yet, in one entry; those that do not exist are left out.

        ``False`` if others were faster too often: try again later.
        """
        for _ in range(_TRIES):
            self._look()
            fresh = self._fresh(paths)
            if not fresh:
                # Also if somebody else, or we before a crash, created the entry and did not come to this.
                if self._last >= 0:
                    self._storage.sync_directories([self._entry(self._last)])
                return True
            if self._last < 0:
                raise ConnectorError(
                    f"{self._log!r} was removed since the job began to write there. The next start of a job "
                    f"with a manifest in {self._base!r} makes a new one that lists all files."
                )
            self._append(fresh)
        return False

    def listed(self) -> list[str]:
        """The URLs of all files that readers see now, in the order in which they became visible."""
        self._look()
        return list(self._lines)

    def _fresh(self, paths: Iterable[str]) -> dict[str, str]:
        unlisted = [path for path in paths if self._url_of(path) not in self._lines]
        sizes = ((path, self._storage.size(path)) for path in unlisted)
        return {self._url_of(path): self._line(path, size) for path, size in sizes if size is not None}

    def _look(self) -> None:
        """Read the entries that are new since the last time."""
        numbers = self._numbers()
        newest = max(numbers, default=-1)
        first = (newest + 1) // _INTERVAL * _INTERVAL - 1
        if first <= self._last and self._is_still_there(numbers):
            first = self._last + 1
        else:
            self._last = -1
            self._lines.clear()
        for number in range(max(first, 0), newest + 1):
            if numbers.get(number) != _name(number):
                raise ConnectorError(
                    f"the manifest {self._log!r} is damaged: it has an entry {newest} but no "
                    f"{_name(number)!r}. Remove it, and the next start makes a new one that lists all files."
                )
            self._read(number)

    def _numbers(self) -> dict[int, str]:
        """The entries that are there: number to name."""
        if not self._storage.exists(self._log):
            return {}
        names = [path.rpartition("/")[2] for path in self._storage.list_files(self._log)]
        return {int(stem): name for name in names if (stem := name.removesuffix(_COMPACT)).isdecimal()}

    def _is_still_there(self, numbers: dict[int, str]) -> bool:
        """Whether the newest entry that we know is in the log, and the same."""
        known = numbers.get(self._last) == _name(self._last)
        return known and _digest(self._bytes_of(self._last)) == self._digest

    def _bytes_of(self, number: int) -> bytes:
        with self._storage.open_read(self._entry(number)) as stream:
            return bytes(stream.read())

    def _read(self, number: int) -> None:
        data = self._bytes_of(number)
        version, *lines = data.decode().splitlines()
        if version != _VERSION:
            raise ConnectorError(f"{self._entry(number)!r} has version {version!r}; we know {_VERSION!r}")
        listed = {json.loads(line)["path"]: line for line in lines}
        if _is_compact(number):
            self._lines.clear()
        self._lines.update(listed)
        self._last, self._digest = number, _digest(data)

    def _append(self, lines: dict[str, str]) -> None:
        """Try to create the next entry."""
        number = self._last + 1
        shown = [*self._lines.values(), *lines.values()] if _is_compact(number) else lines.values()
        data = "\n".join([_VERSION, *shown]).encode()
        if not self._storage.create_new(self._entry(number), data):
            return
        self._last, self._digest = number, _digest(data)
        self._lines.update(lines)
        if _is_compact(number):
            for old, name in sorted(self._numbers().items()):
                if old < number - _INTERVAL:
                    self._storage.remove(join(self._log, name))

    def _entry(self, number: int) -> str:
        return join(self._log, _name(number))

    def _url_of(self, path: str) -> str:
        return f"{self._url}/{_quoted(path.removeprefix(self._base).lstrip('/'))}"

    def _line(self, path: str, size: int) -> str:
        """The time is now, when the file becomes visible: a stream that reads the directory goes by it."""
        status = {
            "path": self._url_of(path),
            "size": size,
            "isDir": False,
            "modificationTime": self._clock.now_ms(),
            "blockReplication": 1,
            "blockSize": 1 << 25,
            "action": "add",
        }
        return json.dumps(status, separators=(",", ":"))


def place_of(base: str, read_as: str | None = None) -> ManifestPlace:
    """The manifest of a normalised base path, and of what Spark's readers call that path, if not the same."""
    if read_as is None and base.startswith("webhdfs:"):
        raise ConfigError(
            f"a manifest in {base!r} must know the URL that Spark reads it by, such as "
            "manifest='hdfs://name-node:8020/path' or with_manifest('hdfs://name-node:8020/path')"
        )
    if read_as is None and base.startswith("s3:"):
        return place_of(base, base.replace("s3:", "s3a:", 1))
    path = (read_as or base).rstrip("/")
    if not is_url(path):
        return ManifestPlace(base, f"file://{_quoted(path)}")
    scheme, _, rest = path.partition("://")
    host, slash, path = rest.partition("/")
    return ManifestPlace(base, f"{scheme}://{host.rpartition('@')[2]}{slash}{_quoted(path)}")


def has_log(base: str) -> bool:
    """Whether Spark reads what a log lists, and not whatever files are there."""
    return storage_of(base).exists(join(base, DIRECTORY))


def refuse_unlisted(base: str) -> None:
    """For a sink without a manifest: in a directory that has one, Spark would never see its files."""
    if has_log(base):
        raise ConfigError(
            f"{base!r} has a manifest, {DIRECTORY!r}: Spark sees only files that it lists, and so none of "
            f"this sink. Give the sink a manifest too, or remove {DIRECTORY!r}: then Spark lists all files."
        )


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _quoted(path: str) -> str:
    return quote(path, safe="/=")


def _is_compact(number: int) -> bool:
    return (number + 1) % _INTERVAL == 0


def _name(number: int) -> str:
    return f"{number}{_COMPACT}" if _is_compact(number) else str(number)
