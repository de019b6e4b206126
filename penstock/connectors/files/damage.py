"""Files whose bytes Arrow cannot read: the error names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from penstock.core.errors import ConnectorError


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
