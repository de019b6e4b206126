"""What a partition remembers of transactional producers: the highest epoch each has committed.

The truth is in the frame headers.  So that they need not all be walked, a sidecar file
``<base>.producers`` beside each new segment holds the state as it was before that segment's first
record; the rest comes from the headers of the active segment.

A sidecar is written before its segment is created.  One without a segment (a crash in between) has a
base above the active segment's and is never looked at.

Every writer of every attempt is a producer, so they are forgotten with their records: once retention has
deleted the last frame of one, nobody can see whether it was ever there.  The newest writer of each place
(subtask of a sink of a job) stays, and up to which epoch those before it were forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.connectors.log.errors import CorruptLogError
from penstock.storage.own_files import write_durably

_SUFFIX = ".producers"
_VERSION = 2


@dataclass(slots=True)
class Producers:
    """Producers by name, ``<job>/<sink>/<subtask>@<run>``."""

    committed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The highest epoch of each, and the offset of its last frame."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """By all of the name but the run: the highest epoch of any that was forgotten."""

    def note(self, producer: str, epoch: int, offset: int) -> None:
        """A frame of ``producer`` is in the log."""
        known = self.committed.get(producer, (epoch, offset))
        self.committed[producer] = (max(epoch, known[0]), max(offset, known[1]))

    def epoch_of(self, producer: str) -> int | None:
        """The highest epoch that is known to be in the log."""
        known = self.committed.get(producer)
        return None if known is None else known[0]

    def has_forgotten(self, producer: str, epoch: int) -> bool:
        """Whether it cannot be told if this epoch was committed: it was so long ago."""
        return epoch <= self.forgotten.get(_place(producer), -1)

    def forget_before(self, start: int, still_staged: Set[str]) -> None:
        """Forget producers without a record from offset ``start`` on, if others came after them.

        Not those of runs that have staged files: their commits are to be repeated.
        """
        newest: dict[str, int] = {}
        for producer, (_, offset) in self.committed.items():
            newest[_place(producer)] = max(offset, newest.get(_place(producer), offset))
        for producer, (epoch, offset) in list(self.committed.items()):
            place, run = _place(producer), producer.rpartition("@")[2]
            if offset < min(start, newest[place]) and run not in still_staged:
                del self.committed[producer]
                self.forgotten[place] = max(epoch, self.forgotten.get(place, epoch))


def _place(producer: str) -> str:
    return producer.rpartition("@")[0]


def _path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}{_SUFFIX}"


def save_producers(directory: Path, base: int, producers: Producers) -> None:
    """Store the state before offset ``base``."""
    stored = {"version": _VERSION, "committed": producers.committed, "forgotten": producers.forgotten}
    write_durably(_path(directory, base), json.dumps(stored).encode())


def load_producers(directory: Path, base: int) -> Producers:
    """The state before the segment that starts at ``base``. The first segment of all has none."""
    path = _path(directory, base)
    if base == 0 and not path.exists():
        return Producers()
    try:
        return _parsed(json.loads(path.read_bytes()), base)
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise CorruptLogError(
            f"{path} is missing or unreadable ({e}): without it nobody can say which transactions are "
            "already in the partition, so nothing can be appended. Restore the file from a copy; if no "
            'exactly-once sink writes to the topic, a file with the text "{}" will do.'
        ) from e


def _parsed(stored: dict[str, Any], base: int) -> Producers:
    if stored.get("version") != _VERSION or not isinstance(stored.get("committed"), dict):
        # As older versions wrote it: epochs by producer. Their frames are somewhere before.
        return Producers({producer: (int(epoch), base - 1) for producer, epoch in stored.items()})
    committed = {producer: (int(epoch), int(at)) for producer, (epoch, at) in stored["committed"].items()}
    return Producers(committed, {place: int(epoch) for place, epoch in stored["forgotten"].items()})


def drop_older(directory: Path, base: int) -> None:
    """Remove sidecars of segments before ``base``; only the active segment's is ever read."""
    for path in directory.glob(f"*{_SUFFIX}"):
        if int(path.name[: -len(_SUFFIX)]) < base:
            path.unlink(missing_ok=True)
