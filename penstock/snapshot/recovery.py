"""Finding a snapshot to restore and making sure that it is whole.

Reads through a store, never writes.  A snapshot that is damaged is left aside with a loud warning and
the one before it is used; trouble with the storage itself (network, permissions) is raised instead,
because going back to an older snapshot for a hiccup would repeat work that was already committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import digest
from penstock.core.signals import SnapshotKind
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import (
    FIRST,
    Entry,
    Fence,
    Published,
    Unreadable,
    candidates,
    entry_path,
    history,
    lost_entry,
    newest_manifest,
    since_closed,
)
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import JOURNAL, METADATA, is_manifest, manifest_rank
from penstock.snapshot.reading import load_entries
from penstock.snapshot.signing import KEY_FILE, KEY_VARIABLE, UNSIGNED, Signing
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store, parent_and_name
from penstock.storage.own_files import read_key

_log = log_of(__name__)

_ROUNDS = 3
"""How often files are looked at in a race with the job that tidies them up; then its manifest must do."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a snapshot is: ``open_store(root)`` is what the paths of its blobs are relative to."""

    root: str
    manifest: str
    """Path of the manifest below ``root``."""

    def __str__(self) -> str:
        return f"{self.root}/{self.manifest}"


class Found(NamedTuple):
    """A snapshot that can be restored."""

    manifest: Manifest
    location: Location


@dataclass(frozen=True, slots=True)
class Search:
    """What recovery found."""

    found: Found | None
    """The newest snapshot that is whole."""
    damaged: Mapping[Published, str]
    """Newer ones that are not, and why."""
    hidden: tuple[str, ...]
    """What may have announced a newer one and cannot be read."""
    newest: str | None
    """Checksum of the newest manifest, whole or not."""

    @property
    def broken(self) -> list[str]:
        """Everything that is wrong."""
        return [*self.damaged.values(), *self.hidden]


def verify_files(store: SnapshotStore, manifest: Manifest, checksums: bool = False) -> None:
    """Raise if a file the manifest names is missing or too short, or, if asked, has other bytes."""
    for path, needed in manifest.files().items():
        size = store.size(path)
        if size is None:
            raise CorruptSnapshotError(f"snapshot {manifest.epoch} is damaged: {store.url}/{path} is missing")
        if size < needed:
            raise CorruptSnapshotError(
                f"snapshot {manifest.epoch} is damaged: {store.url}/{path} has {size} bytes, not {needed}"
            )
    if checksums:
        for blob in manifest.blobs():
            store.read_blob(blob)


def load_published(
    root: SnapshotStore, entry: Published, signing: Signing = UNSIGNED
) -> tuple[SnapshotStore, Found]:
    """The manifest a journal entry points to, checked against it, with the store its blobs are in."""
    if "://" in entry.location or entry.location.startswith("file:"):
        store, path = open_store(entry.location, create=False), METADATA
    else:
        store, path = root, entry.location
    raw = store.read(path)
    if len(raw) != entry.manifest_length or digest(raw) != entry.manifest_checksum:
        raise CorruptSnapshotError(
            f"snapshot {entry.epoch} is damaged: {store.url}/{path} is not the manifest that was published"
        )
    signing.check(raw, f"{store.url}/{path}")
    return store, Found(from_json(raw, f"{store.url}/{path}"), Location(store.url, path))


def latest_valid(
    root: SnapshotStore, verify: bool = True, checksums: bool = False, signing: Signing = UNSIGNED
) -> Found | None:
    """The newest published snapshot below a job's root that is whole; ``None`` if none was published."""
    return search(root, lambda: load_entries(root), verify, checksums, signing).found


def search(
    root: SnapshotStore,
    load: Callable[[], list[Entry]],
    verify: bool = True,
    checksums: bool = False,
    signing: Signing = UNSIGNED,
) -> Search:
    """The same, with the snapshots that were passed over for it; ``load`` reads the journal.

    Files that vanish while they are looked at are no damage if there is a newer snapshot by then: the driver
    that runs the job has tidied up.
    """
    entries = load()
    rounds = 0
    while True:
        result = _search(root, entries, verify and rounds < _ROUNDS, checksums, signing)
        if not result.broken:
            return result
        now, rounds = load(), rounds + 1
        if newest_manifest(now) == result.newest:
            break
        entries = now
    for entry, why in result.damaged.items():
        _log.warning("SNAPSHOT %s IS NOT USED, the one before it is tried: %s", entry.epoch, why)
    if result.found is None:
        raise CorruptSnapshotError(
            f"none of the {len(result.broken)} snapshots of {root.url} can be used: "
            f"{'; '.join(result.broken)}. Bring the files back from a copy, restore a savepoint with -s, or "
            f"start afresh in another directory",
            code=Code.NO_WHOLE_SNAPSHOT,
        )
    _announce_fallback(root, result.found.manifest, result.broken)
    return result


def _search(
    root: SnapshotStore, entries: list[Entry], verify: bool, checksums: bool, signing: Signing
) -> Search:
    newest = newest_manifest(entries)
    damaged: dict[Published, str] = {}
    for entry in candidates(entries):
        try:
            store, found = load_published(root, entry, signing)
            if verify:
                verify_files(store, found.manifest, checksums)
        except CorruptSnapshotError as error:
            damaged[entry] = str(error)
            continue
        return Search(found, damaged, tuple(_unreadable(root, history(entries), entry.seq)), newest)
    return Search(None, damaged, tuple(_hidden(root, entries)), newest)


def _hidden(root: SnapshotStore, entries: list[Entry]) -> list[str]:
    """What may have announced a snapshot and cannot be read, if there is anything it can have announced."""
    closed = next((e for e in since_closed(entries) if isinstance(e, Fence) and e.closing), None)
    if all(_is_of_an_ended_job(root, path, closed) for path in root.list() if is_manifest(path)):
        return []
    lost = missing_entry(root, entries)
    if lost is not None:
        return [lost]
    # Damage below a later entry cuts the history there, so the whole journal is looked through.  The first
    # entry of all announces nothing, whole or torn: who publishes has claimed before.
    return _unreadable(root, entries, FIRST if closed is None else closed.seq)


def _is_of_an_ended_job(root: SnapshotStore, path: str, closed: Fence | None) -> bool:
    """Whether a manifest is one that was to be deleted when the job ended, and still lies there."""
    if closed is None:
        return False
    try:
        return from_json(root.read(path), path).generation <= closed.generation
    except CorruptSnapshotError:
        return False


def missing_entry(root: SnapshotStore, entries: list[Entry]) -> str | None:
    """The sentence about a journal entry that is gone and that nobody had a reason to delete."""
    lost = lost_entry(entries)
    if lost is None:
        return None
    return f"journal entry {root.url}/{entry_path(lost)} is missing and may have announced a snapshot"


def _unreadable(root: SnapshotStore, entries: list[Entry], above: int) -> list[str]:
    """Those of ``entries`` that may have announced a snapshot newer than number ``above``."""
    return [
        f"journal entry {root.url}/{entry_path(entry.seq)} is damaged and may have announced a snapshot"
        for entry in entries
        if isinstance(entry, Unreadable) and entry.seq > above
    ]


def _announce_fallback(root: SnapshotStore, manifest: Manifest, broken: list[str]) -> None:
    """Going back is right for state, but what was committed since cannot be taken back: say so."""
    _log.warning(
        "JOB %r GOES BACK TO SNAPSHOT %s of %s: newer ones cannot be used (%s). State is exact as of that "
        "snapshot. Output that was committed after it stays where it is and IS PRODUCED AGAIN: readers see "
        "it twice, unless the sink overwrites by key or they drop repetitions. To avoid that, stop the job "
        "and bring the damaged files back from a copy",
        manifest.job_name,
        manifest.epoch,
        root.url,
        "; ".join(broken),
    )


def signing_of(key_file: str | None, unsigned_too: bool = False) -> Signing:
    """How to sign and what to restore: by the key file of a setting, else of the environment, else not."""
    chosen = key_file or os.environ.get(KEY_VARIABLE)
    where = KEY_FILE if key_file else KEY_VARIABLE
    return Signing(read_key(chosen, where), unsigned_too) if chosen else UNSIGNED


def read_manifest(path: str, verify: bool = True, signing: Signing | None = None) -> Found:
    """The snapshot a person names: a ``chk-N`` or savepoint directory, its manifest, or a job's directory.

    ``path`` may be a local path or a URL; a job's directory means its newest snapshot.  Without
    ``signing`` the environment says whether it must be signed.
    """
    signing = signing_of(None) if signing is None else signing
    store, name, top = looked_up(path)
    if name is not None:
        return _read_in(store, name, verify, signing)
    newest = latest_valid(store, verify, signing=signing) if JOURNAL in top else None
    if newest is not None:
        return newest
    inside = ", ".join(sorted(top)[:8]) or "nothing"
    raise SnapshotError(
        f"there is no snapshot at {path} (it contains {inside}): name a chk-N or savepoint directory, the "
        f"{METADATA} file in it, or the job's directory",
        code=Code.NO_SNAPSHOT,
    )


def looked_up(path: str) -> tuple[SnapshotStore, str | None, set[str]]:
    """What is at such a path: its store, the manifest to read there if there is one, and what lies beside."""
    parent, name = parent_and_name(path)
    if is_manifest(name):
        return open_store(parent, create=False), name, set()
    store = open_store(path, create=False)
    top = {found.split("/", 1)[0] for found in store.list()}
    manifests = [found for found in top if is_manifest(found)]
    return store, max(manifests, key=manifest_rank, default=None), top


def _read_in(directory: SnapshotStore, name: str, verify: bool, signing: Signing) -> Found:
    raw = directory.read(name)
    manifest = from_json(raw, f"{directory.url}/{name}")
    signing.check(raw, f"{directory.url}/{name}")
    root, prefix = directory, ""
    if manifest.kind is SnapshotKind.CHECKPOINT:
        parent, own = parent_and_name(directory.url)
        root, prefix = open_store(parent, create=False), f"{own}/"
    if verify:
        verify_files(root, manifest)
    return Found(manifest, Location(root.url, prefix + name))
