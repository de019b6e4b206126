"""The one place that commits: it takes a permit, and a permit exists only for what is published."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.errors import FencedError
from penstock.core.handles import Committable
from penstock.core.ids import OperatorId
from penstock.snapshot.permit import CommitPermit


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
        payloads = [pickle.loads(committables[position].payload) for position in positions]
        answers = [CommitOutcome.DROPPED] * len(payloads) if committer is None else committer.commit(payloads)
        outcomes.update(zip(positions, answers, strict=True))
    return tuple(outcomes[position] for position in range(len(committables)))
