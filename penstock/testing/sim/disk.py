"""The disk of the machine that the slots of a run share: copies of their checkpoint files, which go bad.

Real files, because what keeps them there knows nothing else; gone with the run.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.ids import Generation, SlotId
from penstock.snapshot.local_backup import LocalBackup, local_backup
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.storage import SimStore


class LocalDisk:
    """One for each run that has copies; ``base`` is where jobs want them."""

    def __init__(self, world: SimulatedEnvironment, base: str) -> None:
        self._world = world
        self._path = Path(tempfile.mkdtemp(prefix="penstock-sim-", dir=base or None))

    def backup(
        self, store: SimStore, generation: Generation, slot: SlotId, clock: Clock
    ) -> LocalBackup | None:
        """The storage of a slot that begins, with the copies that it finds."""
        self._spoil()
        return local_backup(str(self._path), store, generation, slot, clock)

    def _spoil(self) -> None:
        files = sorted(path for path in self._path.rglob("*") if path.is_file())
        if not files or not self._world.faults.turns_out("bad_copy", f"of {len(files)}"):
            return
        rng = self._world.rng
        victim, other = rng.choice(files), rng.choice(files)
        data = victim.read_bytes()
        if rng.random() < 0.3:
            self.close()
        elif rng.random() < 0.5 and data:
            at = rng.randrange(len(data))
            victim.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        else:
            victim.write_bytes(rng.choice((data[: len(data) // 2], other.read_bytes())))

    def close(self) -> None:
        """Let everything on it go."""
        shutil.rmtree(self._path, ignore_errors=True)
