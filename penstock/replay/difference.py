"""What two runs wrote, compared: as multisets, sink by sink, for order between subtasks means nothing.

Event times are shown, not compared: that of an early result is the time of the record which happened to
complete it, and in which order partitions are read is not the program's doing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError

NOTE = "replay.json"
"""Written last: what was replayed."""
Line = tuple[int | None, str]
"""Event time and record."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one sink."""

    sink: str
    same: int
    gone: tuple[Line, ...]
    """Only the old run wrote these, by event time; repeated as often as they are missing."""
    come: tuple[Line, ...]

    @property
    def is_none(self) -> bool:
        """Whether both wrote the same."""
        return not self.gone and not self.come


def compare(old: Path, new: Path) -> list[Difference]:
    """Sink by sink, those of either run."""
    sinks = {entry.name for run in (old, new) for entry in run.iterdir() if entry.is_dir()}
    return [_compared(sink, old / sink, new / sink) for sink in sorted(sinks)]


def note_of(run: Path) -> dict[str, dict[str, int | None]]:
    """Which splits each source had in that run and where they ended, if they do not end by themselves."""
    try:
        ends: dict[str, dict[str, int | None]] = json.loads((run / NOTE).read_text())["ends"]
    except (OSError, ValueError, KeyError):
        raise ConfigError(
            f"{str(run)!r} is not the output of a finished replay: it has no {NOTE}; give the directory that "
            "an earlier replay was given as --output"
        ) from None
    return ends


def _compared(sink: str, old: Path, new: Path) -> Difference:
    before, old_times = _read(old)
    after, new_times = _read(new)
    same = (before & after).total()
    return Difference(sink, same, _sorted(before - after, old_times), _sorted(after - before, new_times))


def _sorted(records: Counter[str], times: dict[str, int | None]) -> tuple[Line, ...]:
    lines = ((times[record], record) for record in records.elements())
    return tuple(sorted(lines, key=lambda line: (line[0] is not None, line[0] or 0, line[1])))


def _read(directory: Path) -> tuple[Counter[str], dict[str, int | None]]:
    """How often each record is there, and an event time for it."""
    counts: Counter[str] = Counter()
    times: dict[str, int | None] = {}
    for time, record in _lines(directory):
        counts[record] += 1
        times.setdefault(record, time)
    return counts, times


def _lines(directory: Path) -> Iterator[Line]:
    for file in sorted(directory.rglob("*")):
        if file.is_file() and not file.name.startswith((".", "_")):
            for text in file.read_text().splitlines():
                entry = json.loads(text)
                yield entry["time"], entry["record"]
