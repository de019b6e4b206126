"""The committer of staged epochs: one call per epoch, and a mark when it is done.

Why a mark, and not just the absence of the files: files go one by one, and a task that was not told of a
publication brings its committable once more, alone.  Either way a repeat could see a part of the epoch.  The
mark is written in one step and names all files; whoever finds the names there has nothing left to do.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from penstock.connectors.files.storage import Storage, join, storage_of
from penstock.connectors.sink import CommitOutcome, Committer
from penstock.connectors.staged.writer import StagedFiles
from penstock.core.errors import ConnectorError

_KEPT_MARKS = 100
"""Snapshots older than so many epochs are not restored from any more."""
_MARK = re.compile(r"done-(?P<epoch>\d+)\.json")


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
    ) -> None:
        self._deliver = deliver
        self._keep = keep
        self._storage = storage
        self._marks: deque[str] = deque()
        self._swept: set[str] = set()

    def commit(self, committables: Sequence[StagedFiles]) -> Sequence[CommitOutcome]:
        epochs: dict[tuple[int, str], list[StagedFiles]] = {}
        for staged in committables:
            epochs.setdefault((int(staged.epoch), staged.directory), []).append(staged)
        outcomes = {key: self._commit(*key, group) for key, group in epochs.items()}
        return [outcomes[int(staged.epoch), staged.directory] for staged in committables]

    def _commit(self, epoch: int, directory: str, group: list[StagedFiles]) -> CommitOutcome:
        storage = self._storage(directory)
        names = sorted({name for staged in group for name in staged.names})
        files = [join(directory, name) for name in names]
        mark = join(directory, f"done-{epoch}.json")
        done = self._is_marked(mark, names)
        if not done:
            self._check_all_there(epoch, files, group)
            self._deliver(epoch, files)
            self._write_mark(mark, names)
        for file in () if self._keep else files:
            storage.remove(file)
        return CommitOutcome.ALREADY_COMMITTED if done else CommitOutcome.COMMITTED

    def _is_marked(self, mark: str, names: list[str]) -> bool:
        """Whether these very files were delivered: a job begun anew counts its epochs from 1 again."""
        storage = self._storage(mark)
        if not storage.exists(mark):
            return False
        with storage.open_read(mark) as stream:
            return set(names) <= set(json.loads(bytes(stream.read())))

    def _check_all_there(self, epoch: int, files: Iterable[str], group: list[StagedFiles]) -> None:
        lost = [file for file in files if not self._storage(file).exists(file)]
        if lost:
            rows = sum(staged.rows for staged in group)
            raise ConnectorError(
                f"the {rows} rows of epoch {epoch} cannot be handed over: the staged file {lost[0]} was "
                "removed. Restore it, or start the job from a snapshot before that epoch"
            )

    def _write_mark(self, mark: str, names: list[str]) -> None:
        storage = self._storage(mark)
        directory = mark.rpartition("/")[0]
        draft = join(directory, f".{uuid.uuid4().hex}")
        stream = storage.create(draft)
        stream.write(json.dumps(names).encode())
        storage.seal(stream)
        storage.move(draft, mark)
        storage.sync_directories([mark])
        if directory not in self._swept:
            self._swept.add(directory)
            self._marks.extend(sorted(_marks(directory), key=_epoch_of))
        elif mark not in self._marks:
            self._marks.append(mark)
        while len(self._marks) > _KEPT_MARKS:
            storage.remove(self._marks.popleft())


def _marks(directory: str) -> list[str]:
    return [path for path in storage_of(directory).list_files(directory) if _epoch_of(path) >= 0]


def _epoch_of(path: str) -> int:
    name = _MARK.fullmatch(path.rpartition("/")[2])
    return -1 if name is None else int(name["epoch"])
