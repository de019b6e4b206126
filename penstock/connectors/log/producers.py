"""What a partition remembers of transactional producers: the highest epoch each has committed.

The truth is in the frame headers.  So that they need not all be walked, a sidecar file
``<base>.producers`` beside each new segment holds the state as it was before that segment's first
record; the rest comes from the headers of the active segment.

A sidecar is written before its segment is created.  One without a segment (a crash in between) has a
base above the active segment's and is never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.files import write_durably

_SUFFIX = ".producers"


def _path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}{_SUFFIX}"


def save_producers(directory: Path, base: int, epochs: Mapping[str, int]) -> None:
    """Store the state before offset ``base``."""
    write_durably(_path(directory, base), json.dumps(epochs).encode())


def load_producers(directory: Path, base: int) -> dict[str, int]:
    """The state before the segment that starts at ``base``. The first segment of all has none."""
    path = _path(directory, base)
    if base == 0 and not path.exists():
        return {}
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError) as e:
        raise CorruptLogError(
            f"{path} is missing or unreadable ({e}): without it nobody can say which transactions are "
            "already in the partition, so nothing can be appended. Restore the file from a copy; if no "
            'exactly-once sink writes to the topic, a file with the text "{}" will do.'
        ) from e
    return {str(producer): int(epoch) for producer, epoch in loaded.items()}


def drop_older(directory: Path, base: int) -> None:
    """Remove sidecars of segments before ``base``; only the active segment's is ever read."""
    for path in directory.glob(f"*{_SUFFIX}"):
        if int(path.name[: -len(_SUFFIX)]) < base:
            path.unlink(missing_ok=True)
