"""Copies of a slot's own snapshot files on the disk of its machine, to be restored from before the storage.

A slot whose process died begins anew on the same machine most of the time, and then need not fetch its state
from far away.  What is restored is what the manifest names, by length and checksum, wherever its bytes come
from: a copy that is damaged, old or somebody else's is as good as none.  So copies are never waited for,
never durable, and losing them costs time alone.

Below a base directory lies a directory for each place where snapshots go, and in it one for each attempt of a
slot.  A slot writes to its own, reads all of its place, and takes what it restored over, as links; once a
checkpoint is complete, all slots have restored, and those of former attempts are removed.  What a job left
behind that never came back is removed when another one begins, a day later.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.handles import Blob, SubtaskSnapshot, digest, keyed_blobs, new_digest
from penstock.core.ids import Epoch, Generation, SlotId, Subtask
from penstock.snapshot.storage import MemoryStore, SnapshotStore
from penstock.storage.at_once import each
from penstock.storage.own_files import make_directory, open_file, pieces, write_file
from penstock.storage.work_place import default_base

_log = log_of(__name__)

_PREFIX = "penstock-backup-"
_DRAFT = ".draft"
_KEPT_MS = 24 * 3600 * 1000


class LocalBackup:
    """Storage with copies of what this slot writes and restores.

    Read from any thread; everything else happens on the one that writes snapshots.
    """

    def __init__(
        self, storage: SnapshotStore, base: Path, generation: Generation, slot: SlotId, clock: Clock
    ) -> None:
        self.url = storage.url
        self.inline_limit = storage.inline_limit
        self._storage = storage
        where = hashlib.blake2b(storage.url.encode(), digest_size=8).hexdigest()
        self._place = base / f"{_PREFIX}{os.geteuid()}-{where}"
        self._own = self._place / f"{int(generation)}-{int(slot)}"
        self._generation = generation
        self._is_usable = True
        """Whether the directory is ours alone; if not, nothing in it is looked at, made or removed."""
        self._taken: dict[Epoch, dict[Subtask, frozenset[str]]] = {}
        self._may_have_former = True
        """Whether directories of former attempts may be there."""
        self._former = self._found_copies(base, clock)

    # --- the storage of the slot --------------------------------------------------------------

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file durably, and a copy of it if that can be done."""
        with self._copying(path) as copy:
            return self._storage.write_file(path, copy.passing(chunks))

    def store(self, path: str, file: Path) -> Blob:
        """The same with the bytes of a file that never changes: the copy is a link to it, if it can be."""
        with self._copying(path, file) as copy:
            return self._storage.write_file(path, copy.passing(pieces(file)))

    def read_blob(self, blob: Blob) -> bytes:
        """The bytes of a blob, verified, from a copy if there is one."""
        for copy in self._copies(blob):
            data = _bytes_of(copy, blob)
            if data is not None:
                self._take_over(copy, blob)
                return data
        return self._storage.read_blob(blob)

    def fetch(self, wanted: Sequence[tuple[Blob, Path]]) -> None:
        """Make files of blobs: links to copies, if there are any that can be linked to."""
        each(lambda item: self._fetch_one(*item), wanted, self._storage.at_once)

    def _fetch_one(self, blob: Blob, target: Path) -> None:
        if not any(_linked_copy(copy, target, blob) for copy in self._copies(blob)):
            write_file(target, self.read_blob(blob))
        self._take_over(target, blob)

    def _copies(self, blob: Blob) -> list[Path]:
        """Where former attempts may have the bytes of a blob."""
        return [] if blob.path is None else self._former.get(_name(blob.path), [])

    def _take_over(self, file: Path, blob: Blob) -> None:
        """Have this slot's own copy of a blob's whole file, for the next attempt."""
        if self._is_usable and blob.path is not None:
            _is_linked(file, self._own / _name(blob.path))  # if not: it is there, or on another disk

    # --- what need not be kept ----------------------------------------------------------------

    def taken(self, epoch: Epoch, snapshot: SubtaskSnapshot) -> None:
        """A subtask has written its part of a checkpoint."""
        if self._is_usable:
            names = frozenset(map(_name, _paths(snapshot)))
            self._taken.setdefault(epoch, {})[snapshot.subtask] = names

    def completed(self, epoch: Epoch) -> None:
        """A snapshot is complete; what only older checkpoints need, no one will restore."""
        if epoch not in self._taken:
            return  # a savepoint: checkpoints before it are still what a failure goes back to
        for older in [known for known in self._taken if known < epoch]:
            del self._taken[older]
        needed = frozenset[str]().union(*(names for part in self._taken.values() for names in part.values()))
        with contextlib.suppress(OSError):
            for copy in self._own.iterdir():
                if copy.name not in needed:
                    copy.unlink(missing_ok=True)
            os.utime(self._place)
            self._forget_former()

    def remove(self) -> None:
        """The slot's tasks have all finished: nothing of it will be restored."""
        if self._is_usable:
            shutil.rmtree(self._own, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._place.rmdir()

    def _forget_former(self) -> None:
        """Also what a former attempt has written since this one began."""
        if self._may_have_former:
            self._former, self._may_have_former = {}, False
            for attempt in self._attempts():
                if _number(attempt) < self._generation:
                    shutil.rmtree(attempt, ignore_errors=True)

    # --- files --------------------------------------------------------------------------------

    def _found_copies(self, base: Path, clock: Clock) -> dict[str, list[Path]]:
        """Make the slot's directory; copies of former attempts by name, those of the newest first."""
        found: dict[str, list[Path]] = {}
        try:
            _sweep(base, clock.now_ms() - _KEPT_MS, self._place)
            make_directory(self._place)
            if not _is_private(self._place):
                raise PermissionError(errno.EPERM, "others can change it")
            make_directory(self._own)
            attempts = sorted(self._attempts(), key=_number, reverse=True)
        except OSError as error:
            _log.warning("no local copies of checkpoints in %s: %s", self._place, error.strerror or error)
            self._is_usable = False
            return {}
        for attempt in attempts:
            with contextlib.suppress(OSError):  # a process of a former attempt may be removing it
                for copy in attempt.iterdir():
                    found.setdefault(copy.name, []).append(copy)
        return found

    def _attempts(self) -> list[Path]:
        """The directories of other attempts, and of other slots."""
        return [each for each in self._place.iterdir() if each != self._own and _number(each) >= 0]

    @contextlib.contextmanager
    def _copying(self, path: str, file: Path | None = None) -> Iterator[_Copy]:
        """A copy to be written along, or a link to ``file``; seen under its name when the block has ended
        well."""
        if not self._is_usable:
            yield _Copy(None, None)
            return
        draft = self._own / f"{_name(path)}{_DRAFT}"
        copy = _Copy(draft, file)
        try:
            yield copy
            copy.close()
            if copy.is_whole:
                with contextlib.suppress(OSError):
                    draft.replace(self._own / _name(path))
        finally:
            copy.close()
            with contextlib.suppress(OSError):
                draft.unlink()  # there even behind ``replace``, if the copy was a link to the same file


def local_backup(
    base: str | None, storage: SnapshotStore, generation: Generation, slot: SlotId, clock: Clock
) -> LocalBackup | None:
    """Copies below ``base``, or the default directory if it is empty; none if they are not wanted.

    What is in the driver's memory or in manifests is not in files, so there would be nothing to copy.
    """
    if base is None or isinstance(storage, MemoryStore):
        return None
    return LocalBackup(storage, Path(base) if base else default_base(), generation, slot, clock)


class _Copy:
    """A file that is written along, or a link; if it cannot be, it is given up and nobody is told.

    Invariant: bytes go only into a file that was made here.  One that is there already may be a link to a
    file of a working database, and of checkpoints.
    """

    def __init__(self, path: Path | None, source: Path | None) -> None:
        """``source`` holds all the bytes already and never changes."""
        self.is_whole = False
        """Whether all bytes of the original, which was written, are in it."""
        self._file: BinaryIO | None = None
        self._is_link = False
        if path is not None:
            with contextlib.suppress(OSError):
                self._is_link = source is not None and _is_linked(source, path)
                self._file = None if self._is_link else open_file(path, "xb")

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same bytes, written on their way."""
        for chunk in chunks:
            self._write(chunk)
            yield chunk
        self.is_whole = self._is_link or self._file is not None

    def close(self) -> None:
        """The original was written, or has failed."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                self.is_whole = False

    def _write(self, chunk: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(chunk)
            except OSError:
                self.close()


def _is_linked(source: Path, target: Path) -> bool:
    """Make a link; not possible across disks, and on some file systems."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def _name(path: str) -> str:
    """One file name for a path below the root of a storage."""
    return path.replace("/", "~")


def _is_private(place: Path) -> bool:
    """Whether nobody else can put something into a directory, or something else in its place."""
    found = place.lstat()
    closed = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and closed


def _number(attempt: Path) -> int:
    """The generation in a directory's name; -1 if it is not one of an attempt."""
    number, _, slot = attempt.name.partition("-")
    return int(number) if number.isdecimal() and slot.isdecimal() else -1


def _bytes_of(copy: Path, blob: Blob) -> bytes | None:
    try:
        with copy.open("rb") as file:
            file.seek(blob.offset)
            data = file.read(blob.length)
    except OSError:
        return None
    return data if len(data) == blob.length and digest(data) == blob.checksum else None


def _is_file_of(file: Path, blob: Blob) -> bool:
    """Whether a file's bytes are those of a blob."""
    try:
        with file.open("rb") as stream:
            if blob.offset or os.fstat(stream.fileno()).st_size != blob.length:
                return False
            return hashlib.file_digest(stream, new_digest).hexdigest() == blob.checksum
    except OSError:
        return False


def _linked_copy(copy: Path, target: Path, blob: Blob) -> bool:
    """Make ``target`` a link to a copy, if that is whole.  What is judged is what is used: the link."""
    if not _is_linked(copy, target):
        return False
    if _is_file_of(target, blob):
        return True
    target.unlink()
    return False


def _paths(snapshot: SubtaskSnapshot) -> Iterator[str]:
    """The files in which a subtask's part of a checkpoint is."""
    blobs = [handle.blob for handle in snapshot.channels]
    for operator in snapshot.operators:
        blobs += [] if operator.lists is None else [operator.lists]
        blobs += [blob for piece in operator.keyed for blob in keyed_blobs(piece)]
    return (blob.path for blob in blobs if blob.path is not None)


def _sweep(base: Path, before_ms: int, mine: Path) -> None:
    """Remove what other jobs left behind that have not come back since."""
    for place in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = place.lstat()
            is_old = found.st_uid == os.geteuid() and found.st_mtime * 1000 < before_ms
            if is_old and place != mine:
                shutil.rmtree(place, ignore_errors=True)
