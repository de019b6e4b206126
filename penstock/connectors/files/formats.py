"""The contract between the file source and the formats it reads.

A format opens one file from a position and returns a
:class:`~penstock.connectors.source.SplitReader`.  What a position is (a byte offset, a row number) is
the format's own business; ``None`` means the start.

A format that can begin in the middle of a file also opens **ranges** of bytes.  Every record belongs to
the one range that its first byte lies in (for Parquet, that its row group begins in), so ranges that
cover a file deliver each record once, wherever they were cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from penstock.connectors.source import Bound, SplitReader
from penstock.formats.bad_records import BadRecords


class FileRange(NamedTuple):
    """Bytes of a file, from ``start`` up to ``end``; all of it if these are left out."""

    path: str
    start: int = 0
    end: int | None = None

    def holds(self, offset: int) -> bool:
        """Whether what begins at ``offset`` belongs here."""
        return self.start <= offset and (self.end is None or offset < self.end)


class FileFormat(ABC):
    """How to read one file. Shipped to slots by pickling: open files in ``open`` only."""

    @abstractmethod
    def open(self, path: str, position: Any | None) -> SplitReader:
        """A reader of the file ``path`` (normalised) from ``position`` on. Called in the slot."""

    def can_split(self, path: str) -> bool:
        """Whether ``open_range`` may be asked for parts of this file."""
        return False

    def open_range(self, part: FileRange, position: Any | None, bad: BadRecords) -> SplitReader:
        """A reader of a part of a file; records that cannot be decoded are told to ``bad``.

        Formats of whole files need not have it.
        """
        return self.open(part.path, position)

    def produced_type(self) -> Any | None:
        """Type information of the records, if the format knows it."""
        return None

    def narrowed(self, columns: Collection[str]) -> FileFormat:
        """The format that need only read these columns.

        Formats of text read all: a line that cannot be decoded is a bad one, whatever is read of it.
        """
        return self

    def within(self, bounds: Sequence[Bound]) -> FileFormat:
        """The format that may pass over records that are not within all bounds."""
        return self


def some_of(known: list[str] | None, wanted: Collection[str]) -> list[str] | None:
    """Those of the columns to read that are wanted, and one at least, to count rows by."""
    return known and ([name for name in known if name in wanted] or known[:1])


class BulkFormat(FileFormat):
    """A format of blocks of records, such as Parquet's row groups."""
