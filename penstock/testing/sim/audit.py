"""Watches the storage of a simulated job and the promises that are made about it.

Checked at the moment they could break: a published snapshot has all its files; epochs are published in
order; no file of a retained snapshot is deleted; after a cleanup nothing is left that nobody needs.
"""

from __future__ import annotations

import unicodedata

from penstock.core.documents import load
from penstock.core.errors import SnapshotError
from penstock.core.ids import Generation
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import (
    FIRST,
    Entry,
    Fence,
    Published,
    Unreadable,
    candidates,
    decode,
    entry_path,
    history,
    seq_of,
)
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import JOURNAL, METADATA, epoch_of
from penstock.storage.contract import is_temporary
from penstock.testing.sim.environment import Savepoint, SimulatedEnvironment
from penstock.testing.sim.limits import Limits

_LONGEST_NAME = 255
SAVED = "saved"
"""Where people have their savepoints."""


class Auditor:
    """Reads the files of the world directly, past all faults."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        directory: str,
        retained: int,
        job: str = "",
        limits: Limits | None = None,
        concurrent: int = 1,
    ) -> None:
        self._world = world
        world.auditors.append(self)
        self._job = job
        self.limits = limits or Limits()
        self._prefix = f"{directory}/"
        self._retained = retained
        self._concurrent = concurrent
        self._manifests: dict[str, Manifest] = {}
        self._decoded: dict[tuple[str, bytes], Entry | None] = {}
        self._files_of: dict[tuple[Published, ...], frozenset[str]] = {}
        self._rotten: set[str] = set()
        """Paths of damaged files."""
        self.dropping = False
        """The job is over and removes its snapshots."""
        self.newest = 0
        self.published = 0
        self._announced = 0
        """Of those, what the journal of now has announced."""
        self._true: set[int] = set()
        """Epochs that were published."""
        self.savepoints: list[Savepoint] = []
        """Beside the job's history; each can be gone back to at any time."""
        self.finished = False
        """Some driver has finished the job, and nobody means to go on with it."""
        self._ungathered = False
        """A damaged entry kept fences from being gathered; the next one gathers them."""
        self._large = 0
        """Published checkpoints in a row that hold much."""

    def touching(self, name: str) -> None:
        """The job is about to change a file: it must be below its own directory, or among savepoints."""
        if any(len(part.encode()) > _LONGEST_NAME for part in name.split("/")):
            raise SnapshotError(f"file name too long: {name}")
        # Names that some file system takes for one are one.
        directory = unicodedata.normalize("NFC", name.partition("/")[0]).casefold()
        if directory == SAVED:
            return
        owner = self._world.owners.setdefault(directory, self)
        if owner is not self:
            raise self._world.broken(f"job {self._job!r} changes {name}, which is job {owner._job!r}'s")

    def created(self, name: str) -> None:
        """A file was created that must not have existed."""
        seq = seq_of(name.removeprefix(self._prefix))
        if seq is None:
            return
        entry = decode(seq, self._world.files[name])
        self._check_journal(entry)
        if not isinstance(entry, Published) or entry not in history(self._entries()):
            return
        self._world.tell(f"epoch {entry.epoch} is in the journal (generation {entry.generation})")
        manifest = self._manifest(entry)
        if entry.epoch <= self.newest:
            raise self._world.broken(f"epoch {entry.epoch} was published after epoch {self.newest}")
        self.check_whole(manifest, self._home(entry), "published")
        self._check_age(manifest)
        self.newest = int(entry.epoch)
        self.published += 1
        self._announced += 1
        self._true.add(self.newest)
        self._world.publishable.update(transactions_in(manifest))

    def _check_age(self, manifest: Manifest) -> None:
        """What a snapshot holds does not grow with the age of the job."""
        limits = self.limits
        # What was prepared for an aborted snapshot, or for a standalone savepoint, comes with the next
        # checkpoint: however many fail, and however many clients ask at once.
        published = self._true | {int(manifest.epoch)}
        waiting = {item.epoch for item in manifest.committables if item.epoch in published}
        if len(waiting) > limits.epochs_waiting + self._concurrent:
            raise self._world.broken(
                f"epoch {manifest.epoch} was published while {len(waiting)} epochs wait to be committed"
            )
        # A source's steps hold what they have read through until they hear of a checkpoint that says so.  A
        # checkpoint that was long under way has much of it, and so have those begun before it was announced.
        state = sum(blob.length for blob in manifest.blobs())
        self._large = self._large + 1 if state > (limits.state_bytes or state) else 0
        if self._large > 2 + self._concurrent:
            raise self._world.broken(
                f"epoch {manifest.epoch} holds {state} bytes of state as {self._large - 1} before it"
            )

    def _check_journal(self, added: Entry) -> None:
        entries = self._entries()
        if any(isinstance(entry, Unreadable) for entry in entries):
            self._ungathered = True
        elif self._ungathered:
            self._ungathered = not isinstance(added, Fence)
        elif len(entries) > self._retained + self.limits.journal:
            raise self._world.broken(f"the journal has {len(entries)} entries")

    def check_whole(self, manifest: Manifest, home: str, what: str) -> None:
        """All files of a snapshot are there; ``home`` is what their paths begin with."""
        for path, length in manifest.files().items():
            found = self._world.files.get(home + path)
            if found is None or len(found) < length:
                raise self._world.broken(f"epoch {manifest.epoch} was {what} without its file {path}")

    def deleting(self, name: str) -> None:
        """A file that exists is about to go."""
        path = name.removeprefix(self._prefix)
        if not self.dropping and path in self._needed():
            raise self._world.broken(f"{path} is deleted although a retained snapshot needs it")

    def check_tidy(self) -> None:
        """After a cleanup that went well: what is below the newest snapshot belongs to a retained one."""
        allowed = self._allowed()
        newest = max((entry.epoch for entry in self._checkpoints()), default=0)
        for name in self._world.files:
            path = name.removeprefix(self._prefix)
            epoch = epoch_of(path)
            if epoch is not None and epoch < newest and path not in allowed and not is_temporary(path):
                raise self._world.broken(f"{path} is left although no retained snapshot needs it")

    def begin_anew(self) -> None:
        """The journal is gone: whoever comes next begins another."""
        self._announced = 0

    def check_dropped(self) -> None:
        """After the end of the job: nothing but one fence may be there."""
        left = sorted(
            name.removeprefix(self._prefix)
            for name in self._world.files
            if name.startswith(self._prefix) and not is_temporary(name)
        )
        if len(left) > 1 or any(not path.startswith(f"{JOURNAL}/") for path in left):
            raise self._world.broken(f"the finished job left {', '.join(left)}")

    @property
    def has_state(self) -> bool:
        """Whether there is a snapshot that another program would have to take over."""
        return bool(self._readable())

    @property
    def may_be_refused(self) -> bool:
        """Whether a driver may decline to start: a torn entry could have announced the first snapshot."""
        return self._announced == 0 and any(
            isinstance(entry, Unreadable) and entry.seq > FIRST for entry in self._entries()
        )

    # --- damage -----------------------------------------------------------------------------

    def maybe_rot(self, generation: Generation) -> None:
        """The driver of ``generation`` has vanished: damage what it published last, where that is sound.

        Nobody may hold a permit for that snapshot, or have used one: then its output was never seen, and
        a driver that goes back to the one before it must arrive at the same.
        """
        chain = history(self._entries())
        newest = chain[-1] if chain else None
        older = [entry for entry in self._readable() if entry != newest and self._is_whole(entry)]
        if not isinstance(newest, Published) or newest.generation != generation or not older:
            return
        if epoch_of(newest.location) is None:
            return  # a savepoint is damaged by people, not by the job's end
        now, before = self._manifest(newest), self._manifest(older[0])
        if len(transactions_in(now)) < len(now.committables):
            return  # what other sinks have committed is not known here
        new = transactions_in(now) - transactions_in(before)
        if any(new & sink.committed.keys() for sink in self._world.sinks.values()):
            return
        places = [entry_path(newest.seq), newest.location, *(now.files().keys() - before.files().keys())]
        path = self._world.rng.choice(sorted(places))
        if self._world.faults.turns_out("rotten_file", path):
            # Other bytes of the same length in a state file show only when slots read it, which is after the
            # restored output was committed again: the job then says that output comes twice.
            self._damage(path, cut=path != newest.location or self._world.rng.random() < 0.5)
            # What savepoints count on is discarded by whoever goes back behind them.
            self.savepoints = [s for s in self.savepoints if s.manifest.epoch <= before.epoch]

    def _damage(self, path: str, cut: bool) -> None:
        self._rotten.add(path)
        data = self._world.files[self._prefix + path]
        middle = len(data) // 2
        changed = bytes([data[middle] ^ 0x40]) + data[middle + 1 :]
        self._world.files[self._prefix + path] = data[:middle] if cut else data[:middle] + changed

    def _is_whole(self, entry: Published) -> bool:
        return not self._rotten & {entry.location, *self._manifest(entry).files()}

    def _readable(self) -> list[Published]:
        """Published snapshots whose manifest can be read, newest first."""
        return [entry for entry in candidates(self._entries()) if entry.location not in self._rotten]

    def _checkpoints(self) -> list[Published]:
        """Savepoints are people's: neither counted nor deleted."""
        return [entry for entry in self._readable() if epoch_of(entry.location) is not None]

    def _home(self, entry: Published) -> str:
        """What the names of a published snapshot's files begin with."""
        return self._prefix if epoch_of(entry.location) is not None else home_of(entry.location)

    def _entries(self) -> list[Entry]:
        journal = f"{self._prefix}{JOURNAL}/"
        return [
            entry
            for name, raw in self._world.files.items()
            if name.startswith(journal) and (entry := self._entry(name, raw)) is not None
        ]

    def _entry(self, name: str, raw: bytes) -> Entry | None:
        if (name, raw) not in self._decoded:
            seq = seq_of(name.removeprefix(self._prefix))
            self._decoded[name, raw] = None if seq is None else decode(seq, raw)
        return self._decoded[name, raw]

    def _manifest(self, entry: Published) -> Manifest:
        if entry.manifest_checksum not in self._manifests:
            url = epoch_of(entry.location) is None
            name = f"{self._home(entry)}{METADATA}" if url else self._prefix + entry.location
            raw = self._world.files.get(name)
            if raw is None:
                raise self._world.broken(f"epoch {entry.epoch} is published, its manifest is not there")
            self._manifests[entry.manifest_checksum] = from_json(raw, entry.location)
        return self._manifests[entry.manifest_checksum]

    def _needed(self) -> frozenset[str]:
        """Files of the snapshots that must be kept: those that every driver counts."""
        return self._files(tuple(filter(self._is_whole, self._checkpoints()[: self._retained])))

    def _allowed(self) -> frozenset[str]:
        """Files of the snapshots that may be kept: who has not met the damage of one counts it."""
        found = self._checkpoints()
        whole = list(filter(self._is_whole, found))[: self._retained]
        return self._files(tuple(found[: self._retained])) | self._files(tuple(whole))

    def _files(self, kept: tuple[Published, ...]) -> frozenset[str]:
        if kept not in self._files_of:
            found = [entry.location for entry in kept]
            for entry in kept:
                found += self._manifest(entry).files()
            self._files_of[kept] = frozenset(found)
        return self._files_of[kept]


def home_of(location: str) -> str:
    """What the names of a savepoint's files begin with."""
    return f"{location.partition('://')[2]}/"


def transactions_in(manifest: Manifest) -> set[str]:
    """The simulation sinks' transactions in a manifest; other sinks have other committables."""
    found = (load(item.payload) for item in manifest.committables)
    return {item for item in found if isinstance(item, str)}
