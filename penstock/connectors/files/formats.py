"""The contract between the file source and the formats it reads.

A format opens one file from a position and returns a
:class:`~penstock.connectors.source.SplitReader`.  What a position is (a byte offset, a row number) is
the format's own business; ``None`` means the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.connectors.source import SplitReader


class FileFormat(ABC):
    """How to read one file. Shipped to slots by pickling: open files in ``open`` only."""

    @abstractmethod
    def open(self, path: str, position: Any | None) -> SplitReader:
        """A reader of the file ``path`` (normalised) from ``position`` on. Called in the slot."""

    def produced_type(self) -> Any | None:
        """Type information of the records, if the format knows it."""
        return None


class BulkFormat(FileFormat):
    """A format of blocks of records, such as Parquet's row groups."""
