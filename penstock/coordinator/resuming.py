"""What a job goes on from, in one line: at its start, and when it leaves something behind.

At its start: the snapshot, how old it is, and what its sources read next.  When it did not end by itself: its
newest checkpoint, and how to go on.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

from penstock.coordinator.restored import Restored
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.durations import age
from penstock.core.ids import Subtask, SubtaskIndex
from penstock.core.interrupts import how_to_go_on
from penstock.core.job import JobStatus
from penstock.core.news import news
from penstock.graph.plan import Plan
from penstock.snapshot.recovery import Found, latest_valid
from penstock.snapshot.storage import MemoryStore, SnapshotStore

_log = log_of(__name__)

SPLITS = "splits"
"""The state of a source; see ``operators/source_splits.py`` for what is in it."""
_SHOWN = 3
_LONGEST = 60


def tell_beginning(plan: Plan, root: SnapshotStore) -> None:
    """That there was nothing to go on from, where there could have been."""
    if not isinstance(root, MemoryStore):
        news.info(
            "job %r starts from the beginning: there is no checkpoint of it in %s", plan.job_name, root.url
        )


def tell_resuming(plan: Plan, found: Found, restored: Restored, now_ms: int) -> None:
    """What the job goes on from. Positions are a connector's own: that one cannot be shown stops no job."""
    try:
        news.info("%s", resuming(plan, found, restored, now_ms))
    except Exception:
        _log.exception("job %r goes on from %s, which could not be described", plan.job_name, found.location)


def resuming(plan: Plan, found: Found, restored: Restored, now_ms: int) -> str:
    """The line."""
    manifest = found.manifest
    sources = "; ".join(_sources(plan, restored))
    return (
        f"job {plan.job_name!r} goes on from {manifest.kind.value} {manifest.epoch}, taken "
        f"{age(now_ms - manifest.created_ms)} ago ({str(found.location).removesuffix('/_metadata')})"
        f"{': ' if sources else ''}{sources}"
    )


def _sources(plan: Plan, restored: Restored) -> Iterator[str]:
    for vertex, planned in plan.operators():
        if planned.node.source is None:
            continue
        state = restored.subtasks.get(Subtask(vertex.id, SubtaskIndex(0)), {}).get(planned.operator_id)
        items = state.lists.get(SPLITS, ("", ()))[1] if state is not None else ()
        yield f"{planned.node.name} {_positions(items)}"


def _positions(items: tuple[Any, ...]) -> str:
    """Of a union list every subtask has all. One without a split is a lot of them that nobody reads yet."""
    places = [(item[0].id, item[1]) for item in items if item[0] is not None and not item[2]]
    waiting = (
        ", and splits that wait to be read" if any(item[0] is None and not item[2] for item in items) else ""
    )
    if not places:
        return f"has read its splits{waiting}" if items else "has read all that was found"
    shown = ", ".join(f"{name}={_short(position)}" for name, position in places[:_SHOWN])
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    counts = [position for _, position in places if type(position) is int]
    total = f"at record {sum(counts):,}: " if len(counts) == len(places) else "at "
    return f"{total}{shown}{more}{waiting}"


def _short(position: Any) -> str:
    text = "the beginning" if position is None else str(position)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


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
