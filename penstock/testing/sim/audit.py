"""Watches the storage of a simulated job and the promises that are made about it.

Checked at the moment they could break: a published snapshot has all its files; epochs are published in
order; no file of a retained snapshot is deleted; after a cleanup nothing is left that nobody needs.
"""

from __future__ import annotations

import pickle

from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import Entry, Published, candidates, decode, history, seq_of
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import JOURNAL, epoch_of
from penstock.testing.sim.world import World


class Auditor:
    """Reads the files of the world directly, past all faults."""

    def __init__(self, world: World, directory: str, retained: int) -> None:
        self._world = world
        self._prefix = f"{directory}/"
        self._retained = retained
        self._manifests: dict[str, Manifest] = {}
        self.dropping = False
        """The job is over and removes its snapshots."""
        self.newest = 0
        self.published = 0

    def created(self, name: str) -> None:
        """A file was created that must not have existed."""
        seq = seq_of(name.removeprefix(self._prefix))
        if seq is None:
            return
        entry = decode(seq, self._world.files[name])
        if not isinstance(entry, Published) or entry not in history(self._entries()):
            return
        self._world.tell(f"epoch {entry.epoch} is in the journal (generation {entry.generation})")
        manifest = self._manifest(entry)
        if entry.epoch <= self.newest:
            raise self._world.broken(f"epoch {entry.epoch} was published after epoch {self.newest}")
        for path, length in manifest.files().items():
            found = self._world.files.get(self._prefix + path)
            if found is None or len(found) < length:
                raise self._world.broken(f"epoch {entry.epoch} was published without its file {path}")
        self.newest = int(entry.epoch)
        self.published += 1
        self._world.publishable.update(_transactions(manifest))

    def deleting(self, name: str) -> None:
        """A file that exists is about to go."""
        path = name.removeprefix(self._prefix)
        if not self.dropping and path in self._needed():
            raise self._world.broken(f"{path} is deleted although a retained snapshot needs it")

    def check_tidy(self) -> None:
        """After a cleanup that went well: what is below the newest snapshot belongs to a retained one."""
        needed = self._needed()
        newest = max((entry.epoch for entry in candidates(self._entries())), default=0)
        for name in self._world.files:
            path = name.removeprefix(self._prefix)
            epoch = epoch_of(path)
            if epoch is not None and epoch < newest and path not in needed:
                raise self._world.broken(f"{path} is left although no retained snapshot needs it")

    def check_dropped(self) -> None:
        """After the end of the job: nothing but one fence may be there."""
        left = sorted(name.removeprefix(self._prefix) for name in self._world.files)
        if len(left) > 1 or any(not path.startswith(f"{JOURNAL}/") for path in left):
            raise self._world.broken(f"the finished job left {', '.join(left)}")

    def _entries(self) -> list[Entry]:
        journal = f"{self._prefix}{JOURNAL}/"
        found: list[Entry] = []
        for name, raw in self._world.files.items():
            if name.startswith(journal):
                seq = seq_of(name.removeprefix(self._prefix))
                if seq is not None:
                    found.append(decode(seq, raw))
        return found

    def _manifest(self, entry: Published) -> Manifest:
        if entry.manifest_checksum not in self._manifests:
            raw = self._world.files.get(self._prefix + entry.location)
            if raw is None:
                raise self._world.broken(f"epoch {entry.epoch} is published, its manifest is not there")
            self._manifests[entry.manifest_checksum] = from_json(raw, entry.location)
        return self._manifests[entry.manifest_checksum]

    def _needed(self) -> set[str]:
        """Files of the snapshots that must be kept."""
        needed: set[str] = set()
        for entry in candidates(self._entries())[: self._retained]:
            needed.add(entry.location)
            needed.update(self._manifest(entry).files())
        return needed


def _transactions(manifest: Manifest) -> set[str]:
    """The simulation sinks' transactions in a manifest; other sinks have other committables."""
    found = (pickle.loads(item.payload) for item in manifest.committables)
    return {item for item in found if isinstance(item, str)}
