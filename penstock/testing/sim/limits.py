"""What a job may hold, however long it runs: checked at every step of a simulated one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for every job; one that carries less can ask for tighter ones."""

    rows: int = 320
    """What may wait in a channel beside its bytes (``penstock.channel.bytes``): so many rows as large as the
    largest that was seen.  Steps learn how large their results are by the first few hundred."""
    epochs_waiting: int = 5
    """Published snapshots whose output is not committed, beside those in flight, however slow commits are."""
    journal: int = 24
    """Entries of the journal beside those of retained checkpoints, unless a damaged one has to be kept."""
    state_bytes: int | None = None
    """State of one checkpoint, in files and in the manifest."""
    remembered: int = 2_000
    """Things that a driver remembers, in all its lists and tables."""
