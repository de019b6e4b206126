"""The writer of the file sink, with one open part file per bucket, and the committer that names them.

A file's life: *in progress* while it is open, *pending* once it was rolled (complete, durable, still
hidden), *finished* once the committer gave it its final name.  At a barrier everything is rolled and
handed out, so there is no state to restore and nothing to truncate.  Only with compaction pending files
are held back for some barriers, see ``compact.py``; they are the state then.

The committer gives a pending file its final name.  For each committable the two names say
what happened before:

=========  =======  ==========================================================
pending    final    meaning
=========  =======  ==========================================================
there      gone     the normal case: rename
there      there    a store without rename died between copy and delete: again
gone       there    committed earlier: success
gone       gone     somebody took it away, or the driver looks at another disk
=========  =======  ==========================================================

In the last case it matters whose the file is.  One of an attempt that runs under this driver must be there.
One that was committed before, or comes out of a snapshot, may have been read and removed meanwhile: drop
folders are used that way, and a job must be able to start again all the same.

Directories are synced before ``commit`` returns, also for files found committed, since the crash may
have come between the rename and its sync.

With a manifest, files that have their final names are then listed in one entry, see ``manifest.py``;
repeating finds them listed, or lists them.  Only after that may the parts of merged files go.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from penstock.connectors.files.buckets import BucketAssigner, buckets_of
from penstock.connectors.files.compact import FileCompactor, FileCompactStrategy, HeldPart, HeldParts
from penstock.connectors.files.manifest import Manifest, ManifestPlace, has_log
from penstock.connectors.files.part_files import (
    OutputFileConfig,
    PartInfo,
    PartNames,
    RollingPolicy,
    generation_of,
    is_hidden_of,
    tag_of,
)
from penstock.connectors.files.parts import PartFormat, PartWriter, limit_buffers
from penstock.connectors.sink import CommitOutcome, Committer, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.storage.local import LocalStorage
from penstock.storage.places import is_url, join, storage_of

_log = log_of(__name__)

_REMEMBERED = 20
"""Commits: an attempt that starts again under this driver repeats no older ones."""


class FileCommittable(NamedTuple):
    """A complete hidden file and the name it is to get."""

    pending: str
    final: str
    replaced: tuple[str, ...] = ()
    """Hidden files whose records are in this one: removed when it is visible."""
    manifest: ManifestPlace | None = None
    """Where it is to be listed."""


class FileCommitter(Committer):
    """Renames pending files. Runs on the driver, which must see the same storage as the slots.

    Restored committables may be of a sink that had another base path, so each says itself where it is.
    """

    def __init__(
        self, base: str, running: Collection[int] = (), manifest: ManifestPlace | None = None
    ) -> None:
        self._running = running
        """Attempts whose writers were started by this driver."""
        self._base = base
        self._inside = f"{base.rstrip('/')}/"
        self._manifest = manifest
        """Where files below ``base`` are listed, whatever was so when they were prepared."""
        self._manifests: dict[ManifestPlace, Manifest] = {}
        self._done: deque[frozenset[str]] = deque(maxlen=_REMEMBERED)

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        to_list = self._to_list(committables)
        outcomes = [self._commit_one(item.pending, item.final) for item in committables]
        # Remote names are durable when they were moved.
        local, names = LocalStorage(), [item.final for item in committables if not is_url(item.final)]
        local.sync_directories(name for name in names if local.exists(name))
        if not all(manifest.add(names) for manifest, names in to_list):
            return [CommitOutcome.RETRY] * len(committables)
        for item in committables:
            for path in item.replaced:
                storage_of(path).remove(path)
        self._done.append(frozenset(item.final for item in committables))
        return outcomes

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        storage, tag = storage_of(self._base), tag_of(job_name, sink_id)
        found = storage.list_files(self._base) if storage.exists(self._base) else []
        for path in found:
            if is_hidden_of(path.rpartition("/")[2], tag, generation):
                storage.remove(path)

    def _to_list(self, committables: Sequence[FileCommittable]) -> list[tuple[Manifest, list[str]]]:
        """The manifests that are concerned, and the files each is to list."""
        names: dict[ManifestPlace, list[str]] = {}
        for item in committables:
            place = self._manifest if item.final.startswith(self._inside) else item.manifest
            if place is not None:
                names.setdefault(place, []).append(item.final)
        for place in names:
            self._manifests.setdefault(place, Manifest(place))
        # No job of ours begins the log of an old base path again, if somebody has removed it.
        listed = (place for place in names if place == self._manifest or has_log(place.base))
        return [(self._manifests[place], names[place]) for place in listed]

    def _commit_one(self, pending: str, final: str) -> CommitOutcome:
        storage = storage_of(final)
        if storage.exists(pending):
            storage.move(pending, final)
            return CommitOutcome.COMMITTED
        if storage.exists(final):
            return CommitOutcome.ALREADY_COMMITTED
        if any(final in names for names in self._done):
            return CommitOutcome.ALREADY_COMMITTED
        if generation_of(pending) in self._running:
            raise ConnectorError(
                f"cannot commit {final!r}: neither it nor its pending file {pending!r} exists. Either it was "
                "deleted, or the driver does not see the storage that the executors write to; the sink's "
                "base path must be on shared storage."
            )
        _log.warning(
            "neither %r of the snapshot nor its pending file exists. That is right if somebody has taken the "
            "file away since it was committed; if not, its records are lost",
            final,
        )
        return CommitOutcome.ALREADY_COMMITTED


@dataclass(frozen=True, slots=True)
class FileSinkSettings:
    """Everything a writer needs to know about its sink."""

    base_path: str
    part_format: PartFormat
    buckets: BucketAssigner | None
    """``None`` if nobody chose: see :class:`DefaultBucket`."""
    rolling: RollingPolicy
    names: OutputFileConfig
    check_interval_ms: int
    compact: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None
    manifest: ManifestPlace | None = None
    """Where the files are listed for Spark; ``None`` if they are visible by their names alone."""


@dataclass(slots=True)
class _Part:
    """A file in progress."""

    stream: BinaryIO
    writer: PartWriter
    paths: FileCommittable
    created_ms: int
    last_write_ms: int

    def info(self) -> PartInfo:
        """What the rolling policy looks at."""
        return PartInfo(self.stream.tell(), self.created_ms, self.last_write_ms)


class FileWriter(SinkWriter):
    """Writes part files of one subtask."""

    def __init__(self, settings: FileSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._storage = storage_of(settings.base_path)
        self._clock = context.clock
        self._names = PartNames(settings.names, context)
        self._parts: dict[str, _Part] = {}
        self._pending: list[HeldPart] = []
        self._next_check_ms = 0
        self._ending = False
        self._last_epoch = context.restored_epoch or Epoch(0)
        self._buckets, self._notes = buckets_of(settings.buckets, settings.base_path, self._names, context)
        restored = self._still_hidden(context.restored_state)
        self._held = HeldParts(settings.compact, settings.compactor, restored)
        if context.subtask == 0:
            context.to_driver(context.generation)
            self._remove_leftovers()

    def _still_hidden(self, parts: Sequence[HeldPart]) -> list[HeldPart]:
        """Without parts that are gone: if an older snapshot is restored, they were merged and are visible."""
        found = [part for part in parts if storage_of(part.pending).exists(part.pending)]
        if len(found) < len(parts):
            _log.warning(
                "%d files that the snapshot holds below %r are gone. That is right if it is not the job's "
                "newest snapshot: then they were merged after it was taken, and are visible. If it is, their "
                "records are lost",
                len(parts) - len(found),
                self._settings.base_path,
            )
        return found

    def _remove_leftovers(self) -> None:
        """Delete hidden files of earlier attempts.

        What the restored snapshot holds was committed before writers start, so none of these can
        still be wanted; files of this attempt's other subtasks have this attempt's number.
        """
        base = self._settings.base_path
        if not self._storage.exists(base):
            return
        for path in self._storage.list_files(base):
            if self._names.is_leftover(path.rpartition("/")[2]):
                self._storage.remove(path)

    def write(self, batch: Batch) -> None:
        if not len(batch):
            return
        now_ms = self._clock.now_ms()
        for bucket, records in self._buckets.assign(batch, now_ms):
            part = self._parts.get(bucket) or self._open(bucket, now_ms)
            part.writer.write(records)
            part.last_write_ms = now_ms
            if self._settings.rolling.should_roll(part.info(), now_ms):
                self._roll(bucket)
        if len(self._parts) > 1:
            limit_buffers([part.writer for part in self._parts.values()])

    def _open(self, bucket: str, now_ms: int) -> _Part:
        after = None if self._settings.compact is None else self._last_epoch
        paths = self._paths(bucket, *self._names.next_pair(after))
        stream = self._storage.create(paths.pending)
        part = _Part(stream, self._settings.part_format.create(stream), paths, now_ms, now_ms)
        if not self._parts:
            self._next_check_ms = now_ms + self._settings.check_interval_ms
        self._parts[bucket] = part
        return part

    def _paths(self, bucket: str, hidden: str, final: str) -> FileCommittable:
        base = self._settings.base_path
        return FileCommittable(join(base, bucket, hidden), join(base, bucket, final))

    def _roll(self, bucket: str) -> None:
        """In progress becomes pending."""
        part = self._parts[bucket]
        part.writer.finish()
        size = part.stream.tell()
        self._storage.seal(part.stream)
        del self._parts[bucket]
        self._pending.append(HeldPart(bucket, part.paths.pending, part.paths.final, size))

    def flush(self, end_of_input: bool) -> None:
        for bucket in list(self._parts):
            self._roll(bucket)
        self._ending = self._ending or end_of_input

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        self.flush(False)
        self._held.add(self._pending)
        self._pending = []
        prepared = [self._merge(group) for group in self._held.ready(self._ending)]
        hidden = [paths.pending for paths in prepared] + [part.pending for part in self._held.state()]
        self._storage.sync_directories(path for path in hidden if self._is_ours(path))
        self._last_epoch = epoch
        return [paths._replace(manifest=self._settings.manifest) for paths in prepared]

    def _merge(self, parts: list[HeldPart]) -> FileCommittable:
        """One file of several, or the one there is.

        Parts of another job, or of another base path, come with a snapshot that the other may still go on
        from: they are copied, and left to it.
        """
        ours = [part.pending for part in parts if self._is_ours(part.pending)]
        if len(parts) == len(ours) == 1:
            return FileCommittable(parts[0].pending, parts[0].final)
        compactor = self._settings.compactor if len(parts) > 1 else FileCompactor.identical_file_compactor()
        assert compactor is not None
        paths = self._paths(parts[0].bucket, *self._names.next_pair(prefix="compacted-"))
        output = self._storage.create(paths.pending)
        with contextlib.ExitStack() as streams:
            opened = (storage_of(part.pending).open_read(part.pending) for part in parts)
            compactor.compact([streams.enter_context(stream) for stream in opened], output)
        self._storage.seal(output)
        return paths._replace(replaced=tuple(ours))

    def _is_ours(self, pending: str) -> bool:
        inside = pending.startswith(f"{self._settings.base_path.rstrip('/')}/")
        return inside and self._names.is_own(pending.rpartition("/")[2])

    def snapshot(self, epoch: Epoch) -> list[Any]:
        return list(self._held.state())

    def notes(self) -> list[Any]:
        return list(self._notes)

    def next_flush_ms(self) -> int | None:
        return self._next_check_ms if self._parts else None

    def on_time(self, now_ms: int) -> None:
        for bucket, part in list(self._parts.items()):
            if self._settings.rolling.should_roll(part.info(), now_ms):
                self._roll(bucket)
        self._next_check_ms = now_ms + self._settings.check_interval_ms

    def close(self) -> None:
        """Remove what no snapshot knows of: open files, and pending ones never handed out."""
        for part in self._parts.values():
            with contextlib.suppress(Exception):
                part.writer.finish()
            with contextlib.suppress(OSError):
                part.stream.close()
        unknown = [part.paths.pending for part in self._parts.values()]
        for path in [*unknown, *(part.pending for part in self._pending)]:
            with contextlib.suppress(OSError):
                self._storage.remove(path)
        self._parts, self._pending = {}, []
