"""The one place that commits: it takes a permit, and a permit exists only for what is published."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.documents import load
from penstock.core.errors import FencedError
from penstock.core.handles import Committable
from penstock.core.ids import OperatorId
from penstock.snapshot.permit import CommitPermit

_log = logging.getLogger("penstock")


def commit_all(
    permit: CommitPermit,
    committables: tuple[Committable, ...],
    committer_of: Callable[[OperatorId], Committer | None],
) -> tuple[CommitOutcome, ...]:
    """Commit, oldest first, sink by sink; one outcome per committable, in the given order."""
    if any(item.epoch > permit.epoch for item in committables):
        raise FencedError(f"snapshot {permit.epoch} does not permit to commit what came after it")
    outcomes: dict[int, CommitOutcome] = {}
    by_sink: dict[OperatorId, list[int]] = {}
    for position, item in enumerate(committables):
        by_sink.setdefault(item.operator_id, []).append(position)
    for operator_id, positions in by_sink.items():
        committer = committer_of(operator_id)
        if committer is None:
            _tell_dropped(operator_id, len(positions))
            outcomes.update(dict.fromkeys(positions, CommitOutcome.DROPPED))
            continue
        payloads = [load(committables[position].payload) for position in positions]
        outcomes.update(zip(positions, committer.commit(payloads), strict=True))
    return tuple(outcomes[position] for position in range(len(committables)))


def _tell_dropped(operator_id: OperatorId, count: int) -> None:
    """A sink whose guarantee was changed since the snapshot commits nothing any more."""
    _log.error(
        "POSSIBLE DATA LOSS: the snapshot holds %d prepared outputs for the sink %s, which commits nothing "
        "any more: its guarantee was changed. They are skipped. If the job was stopped with a savepoint or "
        "ended by itself they had been committed before; else start it once from this snapshot with the "
        "sink as it was, stop it with a savepoint, and change the sink then.",
        count,
        operator_id,
    )
