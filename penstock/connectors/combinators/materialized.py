"""A table that is written to files once, when a job begins, and read from there: replayable whatever it was.

The driver writes it the first time it is asked for splits, before any slot is taken, and the snapshot
remembers the directory.  So a restart, and a new driver that finds a snapshot, read the same rows again,
also if the table has changed meanwhile; a job that begins anew reads the table as it is then.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.source import Source, Split, SplitEnumerator, SplitReader
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.storage.places import is_url, join, normalise, storage_of

_log = log_of(__name__)

WriteFiles = Callable[[str], Sequence[str]]
"""Writes the table to Parquet files in a directory; their names, in the order to read them."""


class MaterialisedSource(Source):
    """Reads what ``write`` wrote to a new directory below ``home``. ``write`` stays on the driver."""

    read_in_order = True
    ids_last = False

    def __init__(self, write: WriteFiles, home: str | None, type_info: Any | None = None) -> None:
        self._write: WriteFiles | None = write
        self._home = None if home is None else normalise(home)
        self._type = type_info
        self._format = ParquetFormat()
        self._written: tuple[str, tuple[str, ...]] | None = None
        self._is_adopted = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_write": None}

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _Files(self)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return self._format.open(split.info, position)

    def produced_type(self) -> Any | None:
        return self._type

    def home(self) -> str:
        """The directory below which files are written; asked when they are."""
        assert self._home is not None, "a source without a home overrides this"
        return self._home

    def files(self) -> tuple[str, tuple[str, ...]]:
        """The directory and the names of the files in it, written now if they are not there yet."""
        if self._written is None:
            assert self._write is not None, "only the driver's copy of the source writes"
            directory = join(self.home(), uuid.uuid4().hex)
            storage_of(directory).make_own_directory(directory)
            self._written = directory, tuple(self._write(directory))
            self._is_adopted = False
        return self._written

    def adopt(self, directory: str, names: tuple[str, ...]) -> None:
        """The job goes on from a snapshot, with files that this driver or an earlier one wrote."""
        if self._written != (directory, names):
            self._is_adopted = True
        self._written = directory, names

    def discard(self) -> None:
        """Remove the files: the job is over and no snapshot needs them. A next job writes its own.

        Those of an earlier driver stay: the job began with a savepoint, or there may be one of that driver.
        """
        directory, _ = self._written or ("", ())
        self._written = None
        if self._is_adopted or not directory:
            return
        try:
            for path in storage_of(directory).list_files(directory):
                storage_of(directory).remove(path)
            if not is_url(directory):
                Path(directory).rmdir()
        except OSError as error:
            _log.warning("the files of a table in %s could not be removed: %s", directory, error)


class _Files(SplitEnumerator):
    """A split for each file."""

    def __init__(self, source: MaterialisedSource) -> None:
        self._source = source
        self._dealt: tuple[str, tuple[str, ...]] | None = None

    def discover(self) -> Iterable[Split]:
        if self._dealt is not None:
            return []
        self._dealt = directory, names = self._source.files()
        return [Split(name, join(directory, name)) for name in names]

    def snapshot(self) -> Any:
        return self._dealt

    def restore(self, state: Any) -> None:
        self._dealt = state
        if state is not None:
            self._source.adopt(*state)
