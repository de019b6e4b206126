"""A source that does what its script says: records, crashes, pauses, all at known places.

::

    source = cued_source([1, 2, AwaitCheckpoint(), 3, Crash(), 4])

A :class:`Crash` raises in the task that reads the split, as a lost connection would, the first time it
is reached, or the first ``times`` times.  After the restart the source is read again from the restored
position, so a program is exactly-once if its output is as if the crash had not been there.  How often a
crash was reached is kept in files, because nothing in the job may know: see ``directory``.

For jobs on ``local_cluster`` and on Spark.  ``simulate`` has faults and a source of its own.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.copying import copied, copied_all
from penstock.core.errors import ConfigError, ConnectorError
from penstock.testing.items import Record

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Crash:
    """Raise :class:`ScriptedCrash` here, the first ``times`` times that this place is reached."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """Deliver nothing for ``ms`` milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class AwaitCheckpoint:
    """Deliver nothing until a checkpoint is complete that holds everything before this place.

    For a crash whose restart must not begin from the start.  Without checkpointing it waits for ever.
    """


class ScriptedCrash(ConnectorError):
    """The error that a :class:`Crash` raises."""


def cued_source(*splits: Iterable[Any], directory: str | Path | None = None) -> Source:
    """A source with these scripts, one per split; each is read in order by one subtask.

    A script holds values, ``Record(value, time)`` for values with an event time, and :class:`Crash`,
    :class:`Pause` and :class:`AwaitCheckpoint`.  ``directory`` is where reached crashes are noted; it
    must be the same place for the driver and all executors, and a new one per job.  Without it a
    temporary directory of this machine is used, which fits ``local_cluster`` and a local Spark.
    """
    if not splits:
        raise ConfigError("cued_source() needs at least one list of items")
    if directory is None:
        directory = tempfile.mkdtemp(prefix="penstock-cue-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return ScriptedSource([list(script) for script in splits], Path(directory))


class ScriptedSource(Source):
    """What :func:`cued_source` makes."""

    def __init__(self, scripts: list[list[Any]], directory: Path) -> None:
        self._scripts = scripts
        self._directory = directory

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        """One split per script."""
        return FixedSplits([Split(f"script-{number}", number) for number in range(len(self._scripts))])

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        """A reader at an item of the script."""
        marks = self._directory / split.id
        return _ScriptedReader(self._scripts[split.info], position or 0, clock, marks)


class _ScriptedReader(SplitReader):
    """``position`` counts items of the script, cues included."""

    def __init__(self, script: list[Any], index: int, clock: Clock, marks: Path) -> None:
        self._script = script
        self._index = index
        self._clock = clock
        self._marks = marks
        self._resume_at: int | None = None
        self._saved = _NEVER

    def poll(self, max_rows: int) -> Batch | None:
        while self._index < len(self._script) and self._pass_cue(self._script[self._index]):
            self._index += 1
        if self._index >= len(self._script):
            raise EndOfSplit
        start = self._index
        if _is_cue(self._script[start]):
            return None
        timed = isinstance(self._script[start], Record)
        while self._index < min(start + max_rows, len(self._script)):
            item = self._script[self._index]
            if _is_cue(item) or isinstance(item, Record) is not timed:
                break
            self._index += 1
        items = self._script[start : self._index]
        if timed:
            return Batch.of_rows([copied(item.value) for item in items], [item.time for item in items])
        return Batch.of_rows(copied_all(items))

    def _pass_cue(self, item: Any) -> bool:
        """Whether ``item`` is a cue that is done with."""
        if isinstance(item, Crash):
            self._crash(item)
            return True
        if isinstance(item, Pause):
            return self._is_over(item)
        return isinstance(item, AwaitCheckpoint) and self._saved >= self._index

    def _crash(self, crash: Crash) -> None:
        self._marks.mkdir(parents=True, exist_ok=True)
        for time in range(1, crash.times + 1):
            mark = self._marks / f"item-{self._index}-crash-{time}"
            if not mark.exists():
                mark.touch()
                raise ScriptedCrash(
                    f"item {self._index} of {self._marks.name} is a crash, reached for the {time}. time of "
                    f"{crash.times}"
                )

    def _is_over(self, pause: Pause) -> bool:
        now = self._clock.now_ms()
        if self._resume_at is None:
            self._resume_at = now + pause.ms
        if now < self._resume_at:
            return False
        self._resume_at = None
        return True

    def position(self) -> Any:
        return self._index

    def next_poll_ms(self) -> int | None:
        return self._resume_at

    def on_checkpoint_complete(self, position: Any) -> None:
        self._saved = max(self._saved, int(position))


def _is_cue(item: Any) -> bool:
    return isinstance(item, Crash | Pause | AwaitCheckpoint)


__all__ = ["AwaitCheckpoint", "Crash", "Pause", "ScriptedCrash", "ScriptedSource", "cued_source"]
