"""What became of a journal whose driver is not its owner any more, in words.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.ids import Generation
from penstock.snapshot.journal import Entry, Unreadable

DRIVER = "_driver"
"""File below a job's root in which whoever runs the job says so, for people.  Nothing is decided by it."""
_DELETED = (
    "everything this driver wrote is gone: the checkpoint directory was deleted, emptied or mounted anew "
    "while the job ran. Leave it to the job as long as that runs; started again, the job goes on from what "
    "is there, or from a savepoint"
)


def what_happened(entries: Iterable[Entry], generation: Generation | None, driver: str | None) -> str:
    """Why the driver of ``generation`` does not own a journal that holds these entries.

    ``driver`` is who runs the job now, if that is known.
    """
    newer = any(
        isinstance(entry, Unreadable) or generation is None or entry.generation > generation
        for entry in entries
    )
    if not newer:
        return _DELETED
    who = driver or "another driver"
    return f"the job was taken over by {who}. Two drivers of one job must not run at once"
