"""A sink made of two functions: one that writes in the slots, one that commits on the driver.

``write(epoch, batch)`` is called in a slot when the barrier of ``epoch`` has come, with what the subtask
received since the barrier before, in one batch or several; what it returns is a *handle* (a file's name, a
transaction's id), or ``None``.  ``commit(epoch, handles)`` is called on the driver once that epoch's snapshot
is published, with the handles of all subtasks.

What is promised:

* an epoch that is committed was written completely, and all of its handles come in one call;
* after a crash the call may come again, with the same epoch and handles, or some of them;
* what was written and is in no published snapshot is never committed: its handles are never given to
  ``commit``.  The trap: **an epoch's number alone does not say whose rows they are**.  An attempt that failed
  may have written rows for the number that the next attempt uses again.  So commit the handles, not
  "everything with this epoch".

Hence: with a ``commit`` that makes its handles visible in one step and does nothing when they are visible
already, every record is there exactly once.  Without ``commit`` (or with one that does nothing) writes are
visible at once, and records of a failed attempt may be there twice: at least once, or exactly once if writes
replace earlier ones of the same key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch, can_concat, concat
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch

Write = Callable[[int, Batch], Any]
Commit = Callable[..., None]

_MOST_ROWS = 100_000
"""Rows in one call of ``write``."""


@dataclass(frozen=True, slots=True)
class Handles:
    """The committable: what ``write`` returned in one subtask for one epoch."""

    epoch: Epoch
    subtask: int
    values: tuple[Any, ...]


class GenericSink(Sink):
    """Calls ``write(epoch, batch)`` in the slots and ``commit(epoch)`` or ``commit(epoch, handles)`` on the
    driver.

    Handles must be small and picklable: they are part of the snapshot.  Rows wait in memory for the barrier,
    so keep the time between checkpoints short where much is written.
    """

    def __init__(self, write: Write, commit: Commit | None = None) -> None:
        if not callable(write) or not (commit is None or callable(commit)):
            raise ConfigError("GenericSink takes functions: write(epoch, batch) and commit(epoch, handles)")
        self._write = write
        self._commit = commit
        self._commits = commit is not None
        self._with_handles = commit is not None and _takes(commit, 2)
        if commit is not None and not self._with_handles and not _takes(commit, 1):
            raise ConfigError(f"commit takes (epoch) or (epoch, handles); {commit!r} takes neither")

    def __getstate__(self) -> dict[str, Any]:
        # The committing function stays on the driver, where its connections may be.
        return {**self.__dict__, "_commit": None}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _GenericWriter(self._write, context.subtask, self._commits)

    def create_committer(self) -> Committer | None:
        return None if self._commit is None else _GenericCommitter(self._commit, self._with_handles)


class _GenericWriter(SinkWriter):
    """Keeps the batches of the current epoch."""

    def __init__(self, write: Write, subtask: int, commits: bool) -> None:
        self._write = write
        self._subtask = subtask
        self._commits = commits
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        batches, self._batches = self._batches, []
        returned = [self._write(int(epoch), batch) for batch in _merged(batches)]
        handles = tuple(handle for handle in returned if handle is not None)
        return [Handles(epoch, self._subtask, handles)] if returned and self._commits else []


class _GenericCommitter(Committer):
    """Calls the user's function once for each epoch, oldest first."""

    def __init__(self, commit: Commit, with_handles: bool) -> None:
        self._function = commit
        self._with_handles = with_handles

    def commit(self, committables: Sequence[Handles]) -> Sequence[CommitOutcome]:
        epochs: dict[int, list[Any]] = {}
        for item in committables:
            epochs.setdefault(int(item.epoch), []).extend(item.values)
        for epoch, handles in epochs.items():
            if self._with_handles:
                self._function(epoch, handles)
            else:
                self._function(epoch)
        return [CommitOutcome.COMMITTED] * len(committables)


def _merged(batches: list[Batch]) -> list[Batch]:
    """The same records in fewer batches."""
    groups: list[list[Batch]] = []
    rows = 0
    for batch in batches:
        if groups and can_concat(groups[-1][-1], batch) and rows + len(batch) <= _MOST_ROWS:
            groups[-1].append(batch)
            rows += len(batch)
        else:
            groups.append([batch])
            rows = len(batch)
    return [concat(group) for group in groups]


def _takes(function: Commit, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return count == 2  # a builtin without a signature: the first commit will tell
    return True
