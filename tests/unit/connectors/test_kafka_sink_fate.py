"""From what a coordinator says about an id, the fate of every transaction that was prepared under it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.transactions import (
    Fate,
    Naming,
    Owner,
    PreparedTransaction,
    Seen,
    TransactionState,
    check_prefix,
    fate,
    leftovers,
)
from penstock.core.errors import ConfigError

STATE = TransactionState
LAST_EPOCH = 5
"""Epochs of a producer id run out early here, at a broker after 32766."""


def prepared(epoch: int, producer_id: int = 7) -> PreparedTransaction:
    return PreparedTransaction("p-1", producer_id, epoch, 3, 10, ("t",), 60_000)


class IdAtBroker:
    """An id as a coordinator keeps it, and the rules of our writers and cleaners."""

    def __init__(self) -> None:
        self.state = STATE.EMPTY
        self.producer_id, self.epoch = 7, 0
        self.timeout = 60_000
        self.stale: Seen | None = None
        self.truth: dict[tuple[int, int], Fate] = {}

    @property
    def seen(self) -> Seen:
        return Seen(self.state, self.producer_id, self.epoch, self.timeout)

    def initialise(self) -> None:
        """A new producer of the writer: only over an empty or committed id."""
        if self.state in (STATE.EMPTY, STATE.COMPLETE_COMMIT) and self.timeout == 60_000:
            if self.epoch == LAST_EPOCH:
                self.producer_id, self.epoch = self.producer_id + 1, -1
            self.epoch += 1
            self.state = STATE.EMPTY

    def prepare(self) -> None:
        if self.state is STATE.EMPTY and self.timeout == 60_000:
            self.state = STATE.ONGOING
            self.truth[self.producer_id, self.epoch] = Fate.OPEN

    def commit(self) -> None:
        if self.state is STATE.ONGOING:
            self.truth[self.producer_id, self.epoch] = Fate.COMMITTED
            self.state = STATE.PREPARE_COMMIT

    def abort(self) -> None:
        """A timeout, or the fence of a newer attempt."""
        if self.state is STATE.ONGOING:
            self.truth[self.producer_id, self.epoch] = Fate.LOST
            self.epoch += 1
            self.state = STATE.PREPARE_EPOCH_FENCE

    def look(self) -> None:
        """A cleaner describes the id; it may take its time until it fences."""
        self.stale = self.seen if self.seen.needs_fence else self.stale

    def fence(self) -> None:
        """A cleaner fences as it saw the id, how ever long ago; the broker aborts, or makes it empty."""
        if self.stale is None or self.state in (STATE.PREPARE_COMMIT, STATE.PREPARE_ABORT):
            return
        if self.state is STATE.ONGOING:
            self.abort()
        elif self.state in (STATE.EMPTY, STATE.COMPLETE_COMMIT, STATE.COMPLETE_ABORT):
            self.epoch += 1
            self.state, self.timeout = STATE.EMPTY, self.stale.fence_timeout_ms

    def settle(self) -> None:
        """Marks are written."""
        after = {
            STATE.PREPARE_COMMIT: STATE.COMPLETE_COMMIT,
            STATE.PREPARE_EPOCH_FENCE: STATE.PREPARE_ABORT,
            STATE.PREPARE_ABORT: STATE.COMPLETE_ABORT,
        }
        self.state = after.get(self.state, self.state)


STEPS = ["initialise", "prepare", "commit", "settle", "abort"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*STEPS[:4] * 5, STEPS[4]]), max_size=120))
def test_the_fate_of_every_transaction_can_be_told_at_any_time(steps: list[str]) -> None:
    at_broker = IdAtBroker()
    for step in steps:
        getattr(at_broker, step)()
        for (producer_id, epoch), truth in at_broker.truth.items():
            assert fate(prepared(epoch, producer_id), at_broker.seen) is truth, step


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(["initialise", "prepare", "commit", "settle"]), max_size=16),
    st.lists(st.sampled_from(["look", "fence", "settle", "abort", "commit"]), max_size=12),
)
def test_no_number_of_fences_makes_a_lost_transaction_look_committed(
    before: list[str], after: list[str]
) -> None:
    """The writer is dead; cleaners of later attempts, its timeout and a late commit come in any order."""
    at_broker = IdAtBroker()
    for step in before:
        getattr(at_broker, step)()
    last = at_broker.epoch
    for step in after:
        getattr(at_broker, step)()
        for (producer_id, epoch), truth in at_broker.truth.items():
            found = fate(prepared(epoch, producer_id), at_broker.seen)
            # A commit between a look and two fences cannot be told from an abort: a false alarm, no silence.
            alarm = truth is Fate.COMMITTED and epoch == last and at_broker.epoch > last + 1
            assert found is truth or (alarm and found is Fate.LOST)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (None, Fate.FORGOTTEN),
        (Seen(STATE.DEAD, 7, 4), Fate.FORGOTTEN),
        (Seen(STATE.ONGOING, 7, 4), Fate.OPEN),
        (Seen(STATE.COMPLETE_ABORT, 7, 4), Fate.LOST),
        (Seen(STATE.EMPTY, 7, 5), Fate.COMMITTED),
        (Seen(STATE.COMPLETE_ABORT, 7, 5), Fate.LOST),
        (Seen(STATE.COMPLETE_ABORT, 7, 6), Fate.COMMITTED),
        (Seen(STATE.ONGOING, 7, 3), Fate.LOST),
        (Seen(STATE.ONGOING, 8, 0), Fate.COMMITTED),
    ],
)
def test_single_cases(seen: Seen | None, expected: Fate) -> None:
    assert fate(prepared(4), seen) is expected


def made(naming: Naming, subtask: int, generation: int) -> str:
    """An id of such a writer."""
    return naming.writer(Owner(subtask, generation), "ab12") + "1"


def test_ids_of_jobs_and_sinks_do_not_meet() -> None:
    """Not even with one prefix: a fork under another name, a second sink, a prefix of the other's prefix."""
    namings = [
        Naming("p", "job", "sink"),
        Naming("p", "fork", "sink"),
        Naming("p", "job", "other"),
        Naming("p-1", "job", "sink"),
        Naming("p", "jobs", "ink"),
    ]
    ids = [made(naming, 3, 1) for naming in namings]
    for position, naming in enumerate(namings):
        assert [naming.owner_of(name) for name in ids] == [
            Owner(3, 1) if other == position else None for other in range(len(ids))
        ]


@settings(max_examples=50)
@given(before=st.integers(1, 9), after=st.integers(1, 9))
def test_every_leftover_is_fenced_by_one_subtask(before: int, after: int) -> None:
    """Also those of subtasks that are no more, and none of another sink."""
    naming = Naming("p", "job", "sink")
    ids = [made(naming, subtask, 2) for subtask in range(before)]
    others = [made(Naming("p", "job", "sink2"), 0, 2), "p-", naming.stem + "x"]
    seen = dict.fromkeys(ids + others, STATE.ONGOING)
    taken = [leftovers(naming, seen, Owner(subtask, 3), after) for subtask in range(after)]
    assert sorted(name for mine in taken for name in mine) == sorted(ids)


def test_which_attempts_are_older() -> None:
    """Lower generations, as numbers; never what is newer or equal."""
    naming = Naming("p", "job", "sink")
    order = [1, 9, 57, 1_790_000_000, 1_790_000_001]
    ids = [made(naming, 0, generation) for generation in order]
    for position, generation in enumerate(order):
        seen = dict.fromkeys(ids, STATE.ONGOING)
        assert leftovers(naming, seen, Owner(0, generation), 1) == ids[:position]


def test_idle_ids_of_the_attempt_before_are_fenced() -> None:
    """Not those of attempts before that, which were fenced back then, and not our own."""
    naming = Naming("p", "job", "sink")
    idle = {generation: made(naming, 0, generation) for generation in (1, 3, 5, 6)}
    open_one = made(naming, 0, 2)
    seen = {**dict.fromkeys(idle.values(), STATE.EMPTY), open_one: STATE.ONGOING}
    assert leftovers(naming, seen, Owner(0, 5), 1) == [idle[3], open_one]
    assert leftovers(naming, seen, Owner(0, 1), 1) == []


def test_prefixes() -> None:
    with pytest.raises(ConfigError, match="set_transactional_id_prefix"):
        check_prefix(None)
    with pytest.raises(ConfigError, match="64000 bytes"):
        check_prefix("ä" * 32_001)
    assert check_prefix("ä" * 32_000)


def test_a_prepared_transaction_says_what_it_holds() -> None:
    assert str(prepared(4)) == (
        "10 records for t of checkpoint 3 (Kafka transaction p-1, producer 7, epoch 4)"
    )
