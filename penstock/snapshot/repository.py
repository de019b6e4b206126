"""The snapshots of one job: claim, publish, find, retain.  Strings the pure parts and a store together.

Publishing has phases; what happens when one fails is in ``docs/design/002-journal-and-fencing.md``:

1. ``_write_manifest``  create ``chk-N/_metadata`` (a savepoint: in its own directory)
2. ``_append``          create the journal entry: the moment of truth
3. ``permit``           read the predecessor again; only now may anything be committed

One repository belongs to one driver and is used from one thread.
"""

from __future__ import annotations

import uuid

from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, FencedError, SnapshotError
from penstock.core.handles import digest
from penstock.core.ids import Epoch, Generation
from penstock.core.signals import SnapshotKind
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import (
    ClaimOutcome,
    Entry,
    Fence,
    Published,
    Refused,
    Seq,
    candidates,
    claim_outcome,
    encode,
    entry_path,
    history,
    is_crowded,
    may_publish,
    newest_manifest,
    next_epoch,
    seq_of,
    takeover,
    told_by,
)
from penstock.snapshot.manifest import Manifest, check_inline
from penstock.snapshot.paths import (
    JOURNAL,
    METADATA,
    SHARED,
    check_path,
    checkpoint_directory,
    epoch_of,
    is_manifest,
)
from penstock.snapshot.permit import CommitPermit, Ownership, permit_publication, permit_restored
from penstock.snapshot.reading import JournalReader
from penstock.snapshot.recovery import Found, load_published, search
from penstock.snapshot.retain import plan_deletions, stale_manifests
from penstock.snapshot.signing import UNSIGNED, Signing
from penstock.snapshot.storage import SnapshotStore

_log = log_of(__name__)

_TRIES = 16
"""How often an append that lost a race is tried again before giving up."""


def first_generation(now_ms: int) -> int:
    """Where a journal that begins now begins to count: seconds, and attempts are rarer than these."""
    return max(1, now_ms // 1000)


class Repository:
    """The snapshots of ``job`` below the root of ``store``.

    Call order: :meth:`latest_valid`, and whether the program can take it: until here nobody is harmed.  Then
    :meth:`claim`; :meth:`latest_valid` again if it has :meth:`moved_on`; :meth:`permit_restored` if there was
    one; :meth:`publish` and :meth:`retain` in turn; :meth:`drop_all` at the end.  After a
    :class:`FencedError` the driver must stop.  The trap: after any *other* error of :meth:`publish`
    the snapshot may be published all the same, so do not delete its files; retention will.

    ``first_generation`` is that of a journal with no entry.  Generations name what sinks leave outside, which
    outlives the journal; :func:`first_generation` keeps those of one life of a job above the life before.
    """

    def __init__(
        self,
        store: SnapshotStore,
        job: str,
        owner: str | None = None,
        first_generation: int = 1,
        signing: Signing = UNSIGNED,
    ) -> None:
        self.root = store.sub(check_path(job))
        self.signing = signing
        self._owner = uuid.uuid4().hex if owner is None else owner
        self.first_generation = first_generation
        self._reader = JournalReader(self.root)
        self._ownership: Ownership | None = None
        self._fenced = False
        self._founder = False
        self._entries: list[Entry] = []
        """The journal as this driver knows it; the last entry is confirmed to be in the history."""
        self._damaged: set[Seq] = set()
        """Entries of snapshots that recovery passed over; they do not count as retained."""
        self._newest: str | None = None
        """The newest manifest that :meth:`latest_valid` knew of."""

    def load_entries(self) -> list[Entry]:
        """The journal as it is now."""
        return self._reader.load()

    @property
    def is_claimed(self) -> bool:
        """Whether the job was ever this driver's."""
        return self._ownership is not None

    @property
    def generation(self) -> Generation | None:
        """That of the newest claim; ``None`` if the job was never this driver's."""
        return None if self._ownership is None else self._ownership.generation

    def claim(self, closing: bool = False) -> tuple[Generation, list[Entry]]:
        """Begin a new generation.  Gives its number and the journal.

        The first call takes the job over, and everybody else is fenced.  Later calls, one per restart,
        only succeed while the job is still ours.  ``closing`` says that the job has ended.
        """
        for _ in range(_TRIES):
            found = self.load_entries()
            if self._ownership is not None or self._fenced:
                self._check_owned(found)
            carried = self._countable(found) if not closing and is_crowded(found) else None
            fence = takeover(found, self._owner, closing, self.first_generation, carried)
            if not self._create(fence):
                continue
            entries = self._reader.load(anew=Seq(fence.seq - 1))
            outcome = claim_outcome(entries, fence)
            if outcome is ClaimOutcome.SUPERSEDED:
                raise self._fence_off("another driver took over at the same moment")
            if outcome is ClaimOutcome.OWNER:
                self._founder = self._founder or fence.seq == 1
                self._ownership = Ownership(fence)
                self._entries = entries
                if carried is not None:
                    self._compact(fence.seq)
                return fence.generation, entries
        raise SnapshotError(f"{self.root.url} could not be claimed: too many drivers try at once")

    def next_epoch(self) -> Epoch:
        """An epoch nobody has used: above everything published and every directory that exists."""
        found = (epoch_of(path) for path in self.root.list())
        known = max((epoch for epoch in found if epoch is not None), default=None)
        return next_epoch(self._entries, known)

    def latest_valid(self, verify: bool = True, checksums: bool = False) -> Found | None:
        """The newest snapshot that is whole; ``None`` if none was ever published."""
        if self._ownership is not None:
            self._check_owned(self.load_entries())  # what a newer driver published is not for this one
        try:
            result = search(self.root, self.load_entries, verify, checksums, self.signing)
        except CorruptSnapshotError:
            if self._ownership is not None:
                self._check_owned(self.load_entries())  # a newer driver's retention is no damage
            raise
        self._newest = result.newest
        self._damaged.update(entry.seq for entry in result.damaged)
        return result.found

    def moved_on(self) -> bool:
        """Whether somebody has published, or ended the job, since :meth:`latest_valid` looked."""
        return newest_manifest(self._entries) != self._newest

    def permit_restored(self, manifest: Manifest) -> CommitPermit:
        """Permit to commit again what a restored snapshot holds, before any new data."""
        return permit_restored(self._owned(), self.load_entries(), manifest.epoch)

    def publish(self, manifest: Manifest, savepoint: SnapshotStore | None = None) -> CommitPermit:
        """Make a complete snapshot true.  ``savepoint`` is the store at a savepoint's directory."""
        ownership = self._owned()
        self._check(manifest, ownership)
        raw = self.signing.signed(manifest.to_json())
        location = self._write_manifest(manifest, raw, savepoint)
        entry = self._append(manifest, location, raw)
        try:
            before = self._read_or_none(entry_path(Seq(entry.seq - 1)))
            permit = permit_publication(ownership, entry, before)
        except FencedError:
            self._fenced = True
            raise
        self._entries = [*self._entries, entry]
        return permit

    def retain(self, count: int) -> None:
        """Keep the ``count`` newest checkpoints that can be used; delete what nobody needs any more.

        One that recovery passed over as damaged is not kept: it would count for one that can be used.
        Savepoints belong to people: they are neither counted nor deleted.
        """
        if count < 1:
            raise SnapshotError("at least one snapshot must be retained")
        entries = self.load_entries()
        self._check_owned(entries)
        published = candidates(entries)
        kept: dict[str, Manifest] = {}
        oldest: Seq | None = None
        for entry in published:
            manifest = None if entry.seq in self._damaged else self._read_checkpoint(entry)
            if manifest is not None:
                kept[entry.location] = manifest
                oldest = told_by(entries, entry)
            if len(kept) == count:
                break
        if oldest is None:
            return
        self._entries = [entry for entry in history(entries) if entry.seq >= oldest]
        self._delete_entries_below(oldest)
        self._delete_files(kept, max(manifest.epoch for manifest in kept.values()))

    def sweep_shared(self) -> None:
        """Delete shared files that no manifest names: what snapshots that were given up have left.

        Call it right after :meth:`claim`, while no task of this generation runs: nothing that can still
        be published is under way then.  A manifest that cannot be read may name anything, so nothing goes.
        """
        shared = self.root.list(SHARED)
        leftovers = [*self.root.leftovers(), *self.root.leftovers(SHARED)]
        if not shared and not leftovers:
            return
        # In this order: if somebody takes the job over right now, what was listed is not theirs.
        self._check_owned(self.load_entries())
        for path in leftovers:
            self.root.delete(path)
            self.root.delete_tree(path)
        named: set[str] = set()
        for path in self.root.list():
            if is_manifest(path):
                named.update(from_json(self.root.read(path), path).files())
        for path in shared:
            if path not in named:
                self.root.delete(path)

    def drop_all(self) -> None:
        """Delete all checkpoints, at the end of a job that succeeded.

        The closing fence goes last, so that nobody takes what a crash leaves of them for a job to go on
        with.  If other drivers ever ran this job, one may still be alive, and the fence stays.  Only what
        was there before the fence goes: behind it somebody may be starting the job anew.
        """
        self._owned()
        seen = [path for path in self.root.list() if seq_of(path) is None]
        self.claim(closing=True)
        fence = self._owned().fence
        self._fenced = True
        self._delete_entries_below(fence.seq)
        for tree in sorted({path.split("/", 1)[0] for path in seen if epoch_of(path) is not None}):
            self.root.delete_tree(tree)
        for path in seen:
            if epoch_of(path) is None:
                self.root.delete(path)
        if self._founder:
            self.root.delete(entry_path(fence.seq))
            self.root.remove_empty()

    def _owned(self) -> Ownership:
        if self._fenced or self._ownership is None:
            raise self._fence_off("it was fenced before, or never claimed the job")
        return self._ownership

    def _check_owned(self, entries: list[Entry]) -> None:
        decision = may_publish(entries, self._owned().generation, self._entries[-1])
        if isinstance(decision, Refused):
            raise self._fence_off(decision.reason)

    def _fence_off(self, reason: str) -> FencedError:
        """The error that ends this driver; from here on it is refused everything."""
        self._fenced = True
        return FencedError(f"this driver does not own {self.root.url} and stops: {reason}")

    def _check(self, manifest: Manifest, ownership: Ownership) -> None:
        if manifest.generation != ownership.generation:
            raise FencedError(
                f"snapshot {manifest.epoch} was taken by generation {manifest.generation}, this driver is "
                f"generation {ownership.generation}"
            )
        newest = candidates(self._entries)[:1]
        if newest and manifest.epoch <= newest[0].epoch:
            raise SnapshotError(
                f"snapshot {manifest.epoch} cannot be published after snapshot {newest[0].epoch}"
            )
        check_inline(manifest, self.root.max_state_bytes)

    def _write_manifest(self, manifest: Manifest, raw: bytes, savepoint: SnapshotStore | None) -> str:
        """Phase 1.  A name taken by a fenced driver's manifest is left alone; ours goes beside it."""
        if manifest.kind is SnapshotKind.SAVEPOINT:
            if savepoint is None:
                raise SnapshotError("a savepoint needs the directory it was written to")
            write_savepoint(savepoint, manifest, self.signing)
            return savepoint.url
        plain = f"{checkpoint_directory(manifest.epoch)}/{METADATA}"
        for path in (plain, f"{plain}-{manifest.generation}"):
            if self._create_or_own(path, raw):
                return path
        raise SnapshotError(
            f"{self.root.url}/{plain} and its alternative are taken: epoch {manifest.epoch} was used before"
        )

    def _append(self, manifest: Manifest, location: str, raw: bytes) -> Published:
        """Phase 2.  Losing the number to anything but an own earlier write means being fenced."""
        confirmed = self._entries[-1]
        entries = self._entries
        for _ in range(_TRIES):
            decision = may_publish(entries, manifest.generation, confirmed)
            if isinstance(decision, Refused):
                raise self._fence_off(f"snapshot {manifest.epoch} is not published: {decision.reason}")
            self._entries = entries
            entry = Published(
                decision.seq,
                manifest.generation,
                manifest.epoch,
                location,
                digest(raw),
                len(raw),
                decision.previous,
            )
            if self._create(entry):
                return entry
            entries = self.load_entries()
        raise SnapshotError(f"snapshot {manifest.epoch} found no place in the journal of {self.root.url}")

    def _create(self, entry: Fence | Published) -> bool:
        return self._create_or_own(entry_path(entry.seq), encode(entry))

    def _create_or_own(self, path: str, raw: bytes) -> bool:
        """Create a file; one that already holds the same bytes is our own, retried."""
        return self.root.create_if_absent(path, raw) or self._read_or_none(path) == raw

    def _read_or_none(self, path: str) -> bytes | None:
        try:
            return self.root.read(path)
        except CorruptSnapshotError:
            return None

    def _read_checkpoint(self, entry: Published) -> Manifest | None:
        """The manifest of a published checkpoint, ``None`` for a savepoint or a damaged one."""
        if epoch_of(entry.location) is None:
            return None
        try:
            return load_published(self.root, entry)[1].manifest
        except CorruptSnapshotError:
            return None

    def _delete_entries_below(self, seq: Seq) -> None:
        """Delete journal entries in ascending order: the order is what fenced drivers are caught by."""
        found = sorted(number for path in self.root.list(JOURNAL) if (number := seq_of(path)) is not None)
        for number in found:
            if number < seq:
                self.root.delete(entry_path(number))

    def _countable(self, entries: list[Entry]) -> list[Published]:
        """The publications to carry, oldest first: but for the oldest, whose files retention has removed."""
        found = candidates(entries)[::-1]
        there = (
            place
            for place, entry in enumerate(found)
            if epoch_of(entry.location) is not None and self.root.exists(entry.location)
        )
        return found[next(there, 0) :]

    def _compact(self, seq: Seq) -> None:
        """Everything below a fence that carries what counts may go; what stays is tried again by the next."""
        try:
            self._delete_entries_below(seq)
        except (SnapshotError, OSError) as error:
            _log.warning("journal entries that nobody needs could not be removed: %s", error)

    def _delete_files(self, kept: dict[str, Manifest], newest: Epoch) -> None:
        seen = self.root.list()
        dropped = []
        for path in stale_manifests(kept, newest, seen):
            try:
                dropped.append(from_json(self.root.read(path), path))
            except SnapshotError:
                continue
        deletions = plan_deletions(kept, dropped, newest, seen)
        for tree in deletions.trees:
            self.root.delete_tree(tree)
        for path in deletions.files:
            self.root.delete(path)


def write_savepoint(directory: SnapshotStore, manifest: Manifest, signing: Signing = UNSIGNED) -> None:
    """Complete a savepoint that nothing is committed for: it is a copy, not part of the history."""
    raw = signing.signed(manifest.to_json())
    if not directory.create_if_absent(METADATA, raw) and directory.read(METADATA) != raw:
        raise SnapshotError(
            f"{directory.url} already holds a savepoint; choose another directory", code=Code.SAVEPOINT_THERE
        )
