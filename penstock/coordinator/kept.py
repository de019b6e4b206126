"""What an interrupted job leaves behind, in one line: where its newest checkpoint is, and how to go on."""

from __future__ import annotations

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.interrupts import how_to_go_on
from penstock.core.job import JobStatus
from penstock.snapshot.finding import latest_valid
from penstock.snapshot.memory import MemoryStore
from penstock.snapshot.storage import SnapshotStore


def what_is_kept(name: str, status: JobStatus, root: SnapshotStore, config: Configuration) -> str:
    """The line for a job that has ended by now; ``root`` is where its checkpoints are."""
    if status is JobStatus.FINISHED:
        return f"job {name!r} was interrupted, but had finished by then: there is nothing to go on with"
    what = f"job {name!r} was interrupted" + ("" if status is JobStatus.CANCELED else f" ({status.name})")
    if isinstance(root, MemoryStore):
        return (
            f"{what}; it keeps no checkpoint without {options.CHECKPOINT_DIR.key}, so it begins anew; "
            f"{how_to_go_on()}"
        )
    try:
        found = latest_valid(root, verify=False)
    except Exception as error:  # whatever storage raises: the interrupt is what counts
        where = f"its checkpoints are kept in {root.url}, but cannot be read now ({error})"
        return f"{what}; {where}; {how_to_go_on()}"
    if found is not None:
        place = str(found.location).rpartition("/")[0]
        return f"{what}; its newest checkpoint is kept: {place}; {how_to_go_on()}"
    start = config.get(options.RECOVERY_PATH)
    anew = "it begins anew" if start is None else f"it begins at {start} again"
    return f"{what} before its first checkpoint: {anew}; {how_to_go_on()}"
