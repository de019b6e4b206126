"""Files that were found when the job started and are not there when their turn comes, or changed since."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import PositionGoneError
from penstock.storage.contract import MissingFileError

_log = logging.getLogger("penstock")


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
