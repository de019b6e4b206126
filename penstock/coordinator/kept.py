"""What a job leaves behind that did not end by itself, in one line: its newest checkpoint; how to go on."""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.interrupts import how_to_go_on
from penstock.core.job import JobStatus
from penstock.snapshot.recovery import latest_valid
from penstock.snapshot.storage import MemoryStore, SnapshotStore

_log = logging.getLogger("penstock")
WAIT = "wait for it with client.get_job_execution_result().result(), or call env.execute()"
_RUNS = f"was running when its program ended ({WAIT})"
_LEFT = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)
_HOW = {JobStatus.CANCELED: "was interrupted", **dict.fromkeys(_LEFT, _RUNS)}


class Kept(Protocol):
    """A started job."""

    def status(self) -> JobStatus:
        """Where the job is in its life."""
        ...

    def what_is_kept(self) -> str:
        """What it could go on from, and how, in one line."""
        ...


def what_became(name: str, status: JobStatus) -> str:
    """The beginning of the line."""
    return f"job {name!r} {_HOW.get(status, f'was interrupted ({status.name})')}"


def what_is_kept(name: str, status: JobStatus, root: SnapshotStore | None, config: Configuration) -> str:
    """The line for a job that has ended, or ends now; ``root`` is where its checkpoints are, if it has any
    of its own."""
    if status is JobStatus.FINISHED:
        return f"job {name!r} was interrupted, but had finished by then: there is nothing to go on with"
    what = what_became(name, status)
    if root is None:
        return f"{what}; it ran aside and keeps nothing, so it begins anew; {how_to_go_on()}"
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


_started: weakref.WeakSet[Kept] = weakref.WeakSet()


def tell_if_left(job: Kept) -> None:
    """Say at the end of this process what becomes of a job that still runs then, and so ends with it."""
    _started.add(job)
    atexit.unregister(_tell)  # what is registered last comes first: before Spark is ended
    atexit.register(_tell)


def _tell() -> None:
    for job in list(_started):
        if job.status() in _LEFT:
            _log.warning("%s", job.what_is_kept())
