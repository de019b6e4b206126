"""One open database in a directory of its own: rows in, rows out, pictures of one moment.

Used on the task's thread, except that a :class:`Moment` may be read in the thread that writes a snapshot.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.core.work_place import WorkPlace
from penstock.state.rocks.keys import TABLE
from penstock.state.rocks.library import database_options, reading_options, rocksdict, unlogged
from penstock.state.rocks.place import work_place
from penstock.state.rocks.settings import RocksSettings

Rows = Iterator[tuple[bytes, bytes]]


class Database:
    """A database that is removed from disk when it is closed, or when nobody refers to it any more."""

    def __init__(self, settings: RocksSettings) -> None:
        self._place = work_place(settings.localdir)
        self._settings = settings
        self._unlogged = unlogged()
        self._batch_type = rocksdict().WriteBatch
        self._snapshots = 0
        self._rdict: Any = None
        self._opened: list[Any] = []
        self._finish = weakref.finalize(self, _close_and_remove, self._opened, self._place)

    @property
    def files(self) -> Path:
        """Where the database is; restored files are put there before :meth:`open`."""
        return self._place.path / "db"

    def open(self) -> None:
        """Open what is in the directory, or an empty database."""
        options = database_options(self._settings.memory_bytes)
        self._rdict = rocksdict().Rdict(str(self.files), options)
        self._opened.append(self._rdict)
        self.get = self._rdict.get
        """The row of a key, or the rows of a list of keys; ``None`` for those that are not there."""

    def scratch(self) -> Path:
        """A new directory beside the database, removed with it."""
        self._snapshots += 1
        return self._place.path / f"scratch-{self._snapshots}"

    def write(self, rows: list[tuple[bytes, bytes]], gone: list[bytes]) -> None:
        """Store and delete rows, all at once."""
        batch = self._batch_type(raw_mode=True)
        for key, row in rows:
            batch[key] = row
        for key in gone:
            batch.delete(key)
        self._rdict.write(batch, self._unlogged)

    def rows(self, table: int, start: bytes = b"") -> Rows:
        """The rows of a table in order of their keys, from ``start`` on, as they are now."""
        return table_rows(self._rdict, table, start)

    def moment(self) -> Moment:
        """What is there now, however it changes."""
        return Moment(self._rdict.iter())

    def checkpoint(self) -> Path:
        """The files of what is there now, as links in a directory: nothing is copied."""
        target = self.scratch()
        rocksdict().Checkpoint(self._rdict).create_checkpoint(str(target))
        for log in target.glob("*.log"):
            log.unlink()  # empty: nothing is ever logged
        return target

    def close(self) -> None:
        """Close and remove. A :class:`Moment` taken before can still be read."""
        self._rdict = None
        self._finish()


def _close_and_remove(opened: list[Any], place: WorkPlace) -> None:
    """In this order: without its files a database takes a second to close.

    Closing writes what is in memory, which nobody will read: if it fails, because the disk is full or
    somebody has removed the directory, nothing is lost.
    """
    for rdict in opened:
        with contextlib.suppress(Exception):
            rdict.close()
    opened.clear()
    place.remove()


class Moment:
    """A picture of a database, to be read by one thread at a time.

    It is an iterator, which sees what was there when it was made; iterators made from a snapshot object of
    ``rocksdict`` do not.
    """

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def rows(self, table: int, start: bytes = b"") -> Rows:
        """The rows of a table in order of their keys, from ``start`` on. One iteration at a time."""
        prefix = TABLE.pack(table)
        cursor = self._cursor
        cursor.seek(start or prefix)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            cursor.next()
        cursor.status()


def open_files(directory: Path) -> Any:
    """The files of a snapshot, to read only; an object for :func:`table_rows` with a ``close``."""
    library = rocksdict()
    access = library.AccessType.read_only(False)
    return library.Rdict(str(directory), reading_options(), access_type=access)


def table_rows(source: Any, table: int, start: bytes) -> Rows:
    """The rows of ``table`` in an open database, from ``start`` on.

    An upper bound in the read options would be the obvious way, but ``rocksdict`` frees its bytes too early.
    """
    prefix = TABLE.pack(table)
    for item in source.items(from_key=start or prefix):
        if not item[0].startswith(prefix):
            return
        yield item
