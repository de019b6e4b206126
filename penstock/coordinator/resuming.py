"""Where a job begins, in one line: the snapshot, how old it is, and what its sources read next."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from penstock.coordinator.events import Restored
from penstock.core.durations import age
from penstock.core.ids import Subtask, SubtaskIndex
from penstock.core.news import news
from penstock.graph.plan import Plan
from penstock.snapshot.recovery import Found
from penstock.snapshot.storage import MemoryStore, SnapshotStore

_log = logging.getLogger("penstock")

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
