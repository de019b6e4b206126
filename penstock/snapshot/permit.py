"""The right to commit.

A committer runs only with a :class:`CommitPermit`, and only the two functions below make one: after a
publication whose place in the history was confirmed, or for a snapshot restored by the driver that
owns the job.  Wrong order is thereby a type error.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass

from penstock.core.errors import FencedError
from penstock.core.handles import digest
from penstock.core.ids import Epoch, Generation
from penstock.snapshot.journal import Entry, Fence, Published, Refused, may_publish

_TOKEN = object()


@dataclass(frozen=True, slots=True)
class CommitPermit:
    """Proof that snapshot ``epoch`` is published and that ``generation`` owned the job then.

    Covers everything prepared up to and including ``epoch``.
    """

    epoch: Epoch
    generation: Generation
    token: InitVar[object] = None

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("a CommitPermit comes from publishing or restoring a snapshot, nowhere else")


@dataclass(frozen=True, slots=True)
class Ownership:
    """A successful claim: the fence under which this driver acts."""

    fence: Fence

    @property
    def generation(self) -> Generation:
        """The generation this driver owns."""
        return self.fence.generation


def permit_publication(ownership: Ownership, entry: Published, predecessor: bytes | None) -> CommitPermit:
    """Permit for a journal entry that was created, judged by what was then read before it.

    ``predecessor`` is what the number below held *after* the entry was created, ``None`` if nothing.
    If it is not what the entry links to, retention of a newer driver has passed here: the number had
    been used and deleted, and the entry counts for nothing.
    """
    if entry.generation != ownership.generation:
        raise FencedError(
            f"generation {ownership.generation} cannot publish for generation {entry.generation}"
        )
    if predecessor is None or digest(predecessor) != entry.previous:
        raise FencedError(
            f"snapshot {entry.epoch} of generation {entry.generation} came too late and is not committed: "
            "what it was to follow is gone from the journal"
        )
    return CommitPermit(entry.epoch, entry.generation, _TOKEN)


def permit_restored(ownership: Ownership, entries: Iterable[Entry], epoch: Epoch) -> CommitPermit:
    """Permit to commit again what restored snapshot ``epoch`` holds, if the job is still ours."""
    decision = may_publish(entries, ownership.generation)
    if isinstance(decision, Refused):
        raise FencedError(f"snapshot {epoch} may not be committed: {decision.reason}")
    return CommitPermit(epoch, ownership.generation, _TOKEN)
