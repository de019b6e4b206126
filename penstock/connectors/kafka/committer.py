"""Commits prepared Kafka transactions, on the driver, also those of processes that are no more.

For each committable, in this order:

1. Look: what does the coordinator say about the id?
2. Waits for its commit: ask for it.  Committed, or used again since: done before.
3. Refused, since it was aborted between 1 and 2: look once more.
4. Aborted, or forgotten: the records are lost, and the log says which and why.

Whatever a coordinator cannot answer now is tried again later by the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connectors.kafka.transactions import Fate, Naming, Owner, PreparedTransaction, fate, leftovers
from penstock.connectors.kafka.wire import EndAnswer, TransactionClient, Unavailable
from penstock.connectors.sink import CommitOutcome, Committer

log = logging.getLogger("penstock.kafka")


class KafkaCommitter(Committer):
    """Sends the commits that writers could not send themselves. Idempotent."""

    def __init__(self, settings: Mapping[str, Any], prefix: str, timeout_ms: int = 10_000) -> None:
        self._client = TransactionClient(settings, timeout_ms)
        self._prefix = prefix

    def commit(self, committables: Sequence[PreparedTransaction]) -> Sequence[CommitOutcome]:
        outcomes = [CommitOutcome.RETRY] * len(committables)
        try:
            open_ones = self._look(committables, range(len(committables)), outcomes)
            refused = self._send(committables, open_ones, outcomes)
            self._look(committables, refused, outcomes)
        except Unavailable as e:
            waiting = outcomes.count(CommitOutcome.RETRY)
            log.warning("%d Kafka transactions cannot be committed yet: %s", waiting, e)
        return outcomes

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:
        """Until their timeout, open transactions would hold up readers of committed records."""
        naming = Naming(self._prefix, job_name, sink_id)
        left = leftovers(naming, self._client.unfinished(), Owner(0, generation + 1), parallelism=1)
        if left:
            self._client.fence(left)

    def close(self) -> None:
        self._client.close()

    def _look(
        self,
        committables: Sequence[PreparedTransaction],
        places: Sequence[int],
        outcomes: list[CommitOutcome],
    ) -> list[int]:
        """Settle what is settled; gives the places of those that are open."""
        if not places:
            return []
        seen = self._client.describe([committables[place].transactional_id for place in places])
        waiting = []
        for place in places:
            prepared = committables[place]
            found = fate(prepared, seen.get(prepared.transactional_id))
            if found is Fate.OPEN:
                waiting.append(place)
            elif found is Fate.COMMITTED:
                outcomes[place] = CommitOutcome.ALREADY_COMMITTED
            else:
                log.error(_loss(prepared, found))
                outcomes[place] = CommitOutcome.DROPPED
        return waiting

    def _send(
        self,
        committables: Sequence[PreparedTransaction],
        places: Sequence[int],
        outcomes: list[CommitOutcome],
    ) -> list[int]:
        """Ask for commits; gives the places of those that were refused."""
        if not places:
            return []
        answers = self._client.commit([committables[place] for place in places])
        for place, answer in zip(places, answers, strict=True):
            if answer is EndAnswer.DONE:
                outcomes[place] = CommitOutcome.COMMITTED
        return [place for place, answer in zip(places, answers, strict=True) if answer is EndAnswer.REFUSED]


def _loss(prepared: PreparedTransaction, found: Fate) -> str:
    if found is Fate.LOST:
        return (
            f"DATA LOSS: {prepared} {found.value} by the broker before it could be committed, most likely "
            f"because it was open for longer than transaction.timeout.ms={prepared.timeout_ms}. Set "
            "transaction.timeout.ms of the sink (and transaction.max.timeout.ms of the brokers) to more than "
            "the checkpoint interval plus the longest time the job may be down, or start the job from an "
            "older snapshot to write these records again. They are skipped now."
        )
    return (
        f"POSSIBLE DATA LOSS: {prepared} {found.value}, so nobody can tell whether it was committed: "
        "brokers forget ids that were idle for transactional.id.expiration.ms (7 days by default). If the "
        "snapshot is older than that and the job went on after it, it was committed back then."
    )
