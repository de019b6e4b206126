"""The committer of staged epochs: one call per epoch, and a mark when it is done.

Why a mark, and not just the absence of the files: files go one by one, and a task that was not told of a
publication brings its committable once more, alone.  Either way a repeat could see a part of the epoch.  The
mark is written in one step and names all files; whoever finds the names there has nothing left to do.

Marks are for the newest epochs.  Of older ones one file says up to which epoch each attempt's were delivered,
for a job that is started from a savepoint of long ago.  That is enough: an attempt's epochs are delivered in
order, and none of them twice.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer
from penstock.connectors.staged.writer import StagedFiles, directory_of, remove_leftovers
from penstock.core.errors import ConnectorError
from penstock.storage.contract import Storage
from penstock.storage.places import join, storage_of

_KEPT_MARKS = 100
_KEPT_ATTEMPTS = 1000
_MARK = re.compile(r"done-(\d+)-(\d+)\.json")
_PASSED = "passed.json"


class EpochCommitter(Committer):
    """Calls ``deliver(epoch, files)`` for each epoch that has no mark. Oldest first; used by one thread.

    With ``keep`` the files are left to whoever they were delivered to.  ``storage`` finds the file system
    of a path.
    """

    def __init__(
        self,
        deliver: Callable[[int, Sequence[str]], None],
        keep: bool = False,
        storage: Callable[[str], Storage] = storage_of,
        base: str | None = None,
    ) -> None:
        self._base = base
        """Where sinks have their directories, if what a failed run staged is to be removed."""
        self._deliver = deliver
        self._keep = keep
        self._storage = storage
        self._marks: dict[str, list[tuple[int, int]]] = {}

    def commit(self, committables: Sequence[StagedFiles]) -> Sequence[CommitOutcome]:
        epochs: dict[tuple[int, str], list[StagedFiles]] = {}
        for staged in committables:
            epochs.setdefault((int(staged.epoch), staged.directory), []).append(staged)
        outcomes = {key: self._commit(*key, group) for key, group in sorted(epochs.items())}
        return [outcomes[int(staged.epoch), staged.directory] for staged in committables]

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        if self._base is not None:
            remove_leftovers(directory_of(self._base, job_name, sink_id), generation + 1, None)

    def _commit(self, epoch: int, directory: str, group: list[StagedFiles]) -> CommitOutcome:
        storage = self._storage(directory)
        names = sorted({name for staged in group for name in staged.names})
        files = [join(directory, name) for name in names]
        done = self._is_marked(directory, epoch, names) or self._is_long_past(directory, epoch, names)
        if not done:
            self._check_all_there(epoch, files, group)
            self._deliver(epoch, files)
            self._write_mark(directory, epoch, names)
        for file in () if self._keep else files:
            storage.remove(file)
        return CommitOutcome.ALREADY_COMMITTED if done else CommitOutcome.COMMITTED

    def _is_marked(self, directory: str, epoch: int, names: list[str]) -> bool:
        """Whether these very files were delivered: a job begun anew counts its epochs from 1 again."""
        mark = _mark(directory, _generation(names), epoch)
        return self._storage(mark).exists(mark) and set(names) <= set(self._read(mark))

    def _is_long_past(self, directory: str, epoch: int, names: list[str]) -> bool:
        """Whether they were, and their mark is gone. Files that are there are never taken for past."""
        if any(self._storage(directory).exists(join(directory, name)) for name in names):
            return False
        return bool(epoch <= self._passed(directory).get(str(_generation(names)), -1))

    def _check_all_there(self, epoch: int, files: Iterable[str], group: list[StagedFiles]) -> None:
        lost = [file for file in files if not self._storage(file).exists(file)]
        if lost:
            rows = sum(staged.rows for staged in group)
            raise ConnectorError(
                f"the {rows} rows of epoch {epoch} cannot be handed over: the staged file {lost[0]} was "
                "removed. Restore it, or start the job from a snapshot before that epoch"
            )

    def _write_mark(self, directory: str, epoch: int, names: list[str]) -> None:
        marks = self._marks.get(directory)
        if marks is None:
            found = map(_mark_of, self._storage(directory).list_files(directory))
            marks = self._marks[directory] = sorted(mark for mark in found if mark is not None)
        this = (_generation(names), epoch)
        self._write(_mark(directory, *this), names)
        if this not in marks:
            marks.append(this)
        if len(marks) > 2 * _KEPT_MARKS:
            self._forget(directory, sorted(marks)[:-_KEPT_MARKS])

    def _forget(self, directory: str, old: list[tuple[int, int]]) -> None:
        """Keep of these marks only how far their attempts had come."""
        passed = self._passed(directory)
        for generation, epoch in old:
            passed[str(generation)] = max(epoch, passed.get(str(generation), -1))
        newest = sorted(passed, key=int)[-_KEPT_ATTEMPTS:]
        self._write(join(directory, _PASSED), {generation: passed[generation] for generation in newest})
        for mark in old:
            self._storage(directory).remove(_mark(directory, *mark))
        self._marks[directory] = sorted(set(self._marks[directory]) - set(old))

    def _passed(self, directory: str) -> dict[str, int]:
        path = join(directory, _PASSED)
        return dict(self._read(path)) if self._storage(path).exists(path) else {}

    def _read(self, path: str) -> Any:
        with self._storage(path).open_read(path) as stream:
            return json.loads(bytes(stream.read()))

    def _write(self, path: str, value: Any) -> None:
        """Write a small file in one step."""
        storage = self._storage(path)
        draft = join(path.rpartition("/")[0], f".{uuid.uuid4().hex}")
        stream = storage.create(draft)
        stream.write(json.dumps(value).encode())
        storage.seal(stream)
        storage.move(draft, path)
        storage.sync_directories([path])


def _generation(names: Iterable[str]) -> int:
    """That of the attempt that wrote an epoch's files."""
    return max(int(name.partition("-")[0]) for name in names)


def _mark(directory: str, generation: int, epoch: int) -> str:
    return join(directory, f"done-{generation}-{epoch}.json")


def _mark_of(path: str) -> tuple[int, int] | None:
    found = _MARK.fullmatch(path.rpartition("/")[2])
    return None if found is None else (int(found[1]), int(found[2]))
