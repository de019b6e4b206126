"""Names and fates of Kafka transactions that a job prepares and commits later.  Pure.

A transactional id belongs to one writer object for ever, and carries one transaction per producer epoch.
Two rules make the fate of every prepared transaction readable from what the broker says about its id:

* A writer uses an id again only after it has seen that the id's last transaction was **committed**; a new
  producer then has a higher epoch.
* Transactions are aborted only by a **fence** (by us, or by the broker when they time out), which makes the
  epoch one higher and leaves the id aborted; such an id is never used again.

So an id that has moved on means "committed", and an id that stands aborted one epoch above means "lost".
A second fence would hide the first.  So a fence leaves a mark: the timeout it gives to the id, which nobody
else needs any more, says which epoch the writer had.
The argument, with restarts, savepoints, forks and zombies, is design note 014.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.core.errors import ConfigError

MAX_PREFIX_BYTES = 64_000
_LAST_EPOCH = 32_767
_MARKS_FROM_MS = 400_001
"""Marks of fences are odd numbers from here on: no timeout that people choose, and brokers allow them."""
_TAIL = re.compile(r"(\d+)-(\d+)\.[0-9a-f]+-\d+")


class TransactionState(Enum):
    """States of an id at its coordinator, with the names of the protocol."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


COMMITTED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})
ABORTED = frozenset(
    {
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the coordinator says about an id."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int = field(default=0, compare=False)

    @property
    def fenced_epoch(self) -> int | None:
        """The last epoch of the writer, if a fence has left its mark."""
        epoch, rest = divmod(self.timeout_ms - _MARKS_FROM_MS, 2)
        return epoch if rest == 0 and 0 <= epoch <= _LAST_EPOCH else None

    @property
    def needs_fence(self) -> bool:
        """Whether whoever had the id could still write under it, and no fence has locked him out."""
        return self.state is TransactionState.ONGOING or (
            self.state is TransactionState.EMPTY and self.fenced_epoch is None
        )

    @property
    def fence_timeout_ms(self) -> int:
        """The timeout to fence the id with."""
        return _MARKS_FROM_MS + 2 * self.producer_epoch


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction with everything acknowledged and left open: the sink's committable."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    epoch: int
    """The snapshot it belongs to."""
    records: int
    topics: tuple[str, ...]
    timeout_ms: int
    """How long the broker leaves it open."""

    def __str__(self) -> str:
        topics = ", ".join(self.topics)
        return (
            f"{self.records} records for {topics} of checkpoint {self.epoch} "
            f"(Kafka transaction {self.transactional_id}, producer {self.producer_id}, "
            f"epoch {self.producer_epoch})"
        )


class Fate(Enum):
    """What became of a prepared transaction."""

    OPEN = "waits for its commit"
    COMMITTED = "is committed"
    LOST = "was aborted"
    FORGOTTEN = "is not known to the broker any more"


def fate(prepared: PreparedTransaction, seen: Seen | None) -> Fate:
    """Read the fate of ``prepared`` from what its coordinator says; ``None`` if it knows no such id."""
    if seen is None or seen.state is TransactionState.DEAD:
        return Fate.FORGOTTEN
    if seen.producer_id != prepared.producer_id:
        return Fate.COMMITTED  # epochs of the old producer id were used up, by using the id again
    ahead = seen.producer_epoch - prepared.producer_epoch
    marked = seen.timeout_ms != prepared.timeout_ms and seen.fenced_epoch == prepared.producer_epoch
    if marked and ahead > 1:
        return Fate.LOST  # the writer never came further, and a second fence hides what the first one did
    if ahead == 0 and seen.state is TransactionState.ONGOING:
        return Fate.OPEN
    if ahead == 0 and seen.state in COMMITTED:
        return Fate.COMMITTED
    if ahead <= 0 or (ahead == 1 and seen.state in ABORTED):
        return Fate.LOST
    return Fate.COMMITTED


class Owner(NamedTuple):
    """The writer that made an id."""

    subtask: int
    generation: int
    """Later attempts of a job have greater ones, over all its submissions."""


class Naming:
    """Transactional ids of one sink of one job: ``<prefix>-<job and sink>-<subtask>-<writer>-<number>``.

    The second part is made of the job's name and the sink's uid, so that two jobs started from one
    savepoint under different names do not meet, and neither do two sinks with the same prefix.
    """

    def __init__(self, prefix: str, job_name: str, sink_id: str) -> None:
        identity = hashlib.blake2b(f"{job_name}\0{sink_id}".encode(), digest_size=6).hexdigest()
        self.stem = f"{prefix}-{identity}-"

    def writer(self, owner: Owner, token: str) -> str:
        """What all ids of one writer object begin with; ``token`` (hex) is drawn anew for each."""
        return f"{self.stem}{owner.subtask}-{owner.generation}.{token}-"

    def owner_of(self, transactional_id: str) -> Owner | None:
        """The writer that made an id of this sink, ``None`` for ids of others."""
        if not transactional_id.startswith(self.stem):
            return None
        found = _TAIL.fullmatch(transactional_id[len(self.stem) :])
        return None if found is None else Owner(int(found[1]), int(found[2]))


def leftovers(
    naming: Naming, seen: Mapping[str, TransactionState], own: Owner, parallelism: int
) -> list[str]:
    """Ids of older attempts that the subtask ``own`` has to fence when it starts.

    Those with an open transaction, and the idle ones of the attempt just before, which a worker that still
    lives could begin to use.  Each is taken care of by exactly one subtask, also if there were more before.
    Never those of a newer attempt: if there is one, this one is over and does not know it.
    """
    older = {
        name: owner.generation
        for name in seen
        if (owner := naming.owner_of(name))
        and owner.subtask % parallelism == own.subtask
        and owner.generation < own.generation
    }
    before = max(older.values(), default=None)
    return [
        name
        for name, generation in older.items()
        if seen[name] is TransactionState.ONGOING or generation == before
    ]


def check_prefix(prefix: str | None) -> str:
    """The prefix if it can be used."""
    if not prefix:
        raise ConfigError(
            "EXACTLY_ONCE needs set_transactional_id_prefix(...): the ids of the sink's Kafka transactions "
            "begin with it, and access rules of the brokers are written for it. Take one that no other "
            "application on this Kafka cluster uses."
        )
    if len(prefix.encode()) > MAX_PREFIX_BYTES:
        raise ConfigError(f"the transactional id prefix is longer than {MAX_PREFIX_BYTES} bytes")
    return prefix
