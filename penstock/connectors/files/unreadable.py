"""Files that cannot be read when their turn comes: gone or changed since they were found, or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError, PositionGoneError
from penstock.storage.contract import MissingFileError

_log = log_of(__name__)


class OnMissing(Enum):
    """What to do with a file that is gone before all of it was read."""

    ERROR = "error"
    SKIP = "skip"
    """Go on with the other files; the log says what was lost."""


def open_found(
    make: Callable[[], SplitReader], position: Any | None, on_missing: OnMissing, way_out: str
) -> SplitReader:
    """The reader that ``make`` opens; one without records if its file is gone and that is allowed.

    ``way_out`` is how to read on without the file.
    """
    try:
        return make()
    except MissingFileError as e:
        read = "nothing of it" if position is None else f"it up to {position}"
        if on_missing is OnMissing.SKIP:
            _log.error("DATA LOSS: %r is gone; the job has read %s. It goes on without", e.path, read)
            return _NothingLeft(position)
        if position is None:
            raise
        raise PositionGoneError(
            f"{e.path!r} is gone, and the job has read {read}. Put the file back as it was; or go on without "
            f"the rest of it: {way_out}"
        ) from None


class _NothingLeft(SplitReader):
    """At its end."""

    def __init__(self, position: Any | None) -> None:
        self._position = position

    def poll(self, max_rows: int) -> Batch | None:
        raise EndOfSplit

    def position(self) -> Any:
        return self._position


def shrunk(path: str, unit: str, position: int, size: int) -> PositionGoneError:
    """The error for a file that ends before the place where reading is to go on."""
    return PositionGoneError(
        f"{path!r} was already read up to {unit} {position} but has only {size}: it was replaced or cut off "
        "meanwhile. Put the old file back, or start without the snapshot."
    )


@contextmanager
def reading(path: str, kind: str, row: int | None = None) -> Iterator[None]:
    """What Arrow raises in the block is an error about the file, from ``row`` on; without one it is opened.

    An error of the system (no such file, no permission) passes: it names the file itself.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if row is None:
            raise ConnectorError(
                f"{path!r} is not a complete {kind} file: {error}. A file must be complete before it appears"
                ": write it under a name with a leading dot and rename it."
            ) from error
        raise ConnectorError(
            f"{path!r} is damaged, and cannot be read from row {row} on: {error}. Restore the file, or move "
            "it out of the source's directory and start the job from a snapshot in which it was not begun"
        ) from error
