"""Reading a whole snapshot, or all snapshots of a job, to say what is damaged.

Unlike recovery, which stops at the first damage, this goes on and reports every file.  It reads only.
Damage is reported; trouble with the storage itself is raised, since it says nothing about the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, FormatVersionError, SnapshotError
from penstock.core.handles import Blob
from penstock.core.signals import SnapshotKind
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import Unreadable, candidates, entry_path
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import JOURNAL
from penstock.snapshot.reading import load_entries
from penstock.snapshot.recovery import load_published, looked_up, missing_entry, read_manifest, signing_of
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store, parent_and_name

_DAMAGE = (CorruptSnapshotError, FormatVersionError)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """One file that was read, and what is wrong with it."""

    name: str
    """Where it is: path or URL."""
    length: int
    """Bytes that were read and compared."""
    problems: tuple[str, ...] = ()


def check_snapshot(path: str) -> Iterator[CheckedFile]:
    """Read everything a snapshot consists of, file by file; a job's directory means all its snapshots.

    ``path`` is what :func:`~penstock.snapshot.recovery.read_manifest` takes.
    """
    store, name, top = looked_up(path)
    if name is not None:
        yield from _check_directory(store, name)
    elif JOURNAL in top:
        yield from _check_job(store)
    else:
        read_manifest(path, verify=False)  # says what is there instead
        raise SnapshotError(f"there is no snapshot at {path}", code=Code.NO_SNAPSHOT)


def _check_directory(directory: SnapshotStore, name: str) -> Iterator[CheckedFile]:
    shown = f"{directory.url}/{name}"
    try:
        raw = directory.read(name)
        manifest = from_json(raw, shown)
        signing_of(None).check(raw, shown)
    except _DAMAGE as error:
        yield CheckedFile(shown, 0, (str(error),))
        return
    yield CheckedFile(shown, len(raw))
    root = directory
    if manifest.kind is SnapshotKind.CHECKPOINT:
        root = open_store(parent_and_name(directory.url)[0], create=False)
    yield from _check_files(root, manifest, set())


def _check_job(root: SnapshotStore) -> Iterator[CheckedFile]:
    entries = load_entries(root)
    for entry in entries:
        problems = ("it is no journal entry",) if isinstance(entry, Unreadable) else ()
        path = entry_path(entry.seq)
        yield CheckedFile(f"{root.url}/{path}", root.size(path) or 0, problems)
    lost = missing_entry(root, entries)
    if lost is not None:
        yield CheckedFile(f"{root.url}/{JOURNAL}", 0, (lost,))
    seen: set[Blob] = set()
    for published in candidates(entries):
        try:
            store, found = load_published(root, published, signing_of(None))
        except _DAMAGE as error:
            yield CheckedFile(f"{root.url}/{published.location}", 0, (str(error),))
            continue
        yield CheckedFile(str(found.location), published.manifest_length)
        # Snapshots of one job share files; a savepoint's are its own.
        known = seen if store is root else set()
        yield from _check_files(store, found.manifest, known)


def _check_files(store: SnapshotStore, manifest: Manifest, seen: set[Blob]) -> Iterator[CheckedFile]:
    """The state files, each once; ``seen`` are blobs that need no second look."""
    files: dict[str, list[Blob]] = {}
    for blob in manifest.blobs():
        if blob.path is not None and blob not in seen:
            seen.add(blob)
            files.setdefault(blob.path, []).append(blob)
    for path, blobs in sorted(files.items()):
        problems = []
        for blob in sorted(blobs, key=lambda blob: blob.offset):
            try:
                store.read_blob(blob)
            except CorruptSnapshotError as error:
                problems.append(str(error))
        length = sum(blob.length for blob in blobs)
        yield CheckedFile(f"{store.url}/{path}", length, tuple(dict.fromkeys(problems)))
