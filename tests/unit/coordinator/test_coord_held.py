"""Commits slower than checkpoints: the next checkpoint waits, people are told why, and nothing is lost."""

from __future__ import annotations

import pytest
from coord_rig import Rig, of, restored, triggers

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.commits import MOST_WAITING
from penstock.coordinator.events import (
    Answer,
    Commit,
    CommitFailed,
    Held,
    Publish,
    RequestKind,
    SavepointWritten,
    SnapshotRequest,
    SnapshotRequested,
)
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.savepoint_requests import MOST_REQUESTS
from penstock.core.ids import Epoch
from penstock.core.restart import FixedDelay


def checkpoint(rig: Rig, after: int = 100) -> int | None:
    """Let an interval pass; the epoch that was triggered, acknowledged and published, if one was."""
    found = triggers(rig.tick(after))
    publish(rig, found)
    return found[0] if found else None


def publish(rig: Rig, epochs: list[int]) -> None:
    for epoch in epochs:
        rig.ack_all(epoch, f"out-{epoch}".encode())
        rig.published(epoch)


def full(**settings: object) -> Rig:
    """A job whose first commit hangs while as many snapshots as may wait are published behind it."""
    rig = Rig(interval_ms=100, **settings).run()
    assert [checkpoint(rig) for _ in range(MOST_WAITING)] == list(range(1, MOST_WAITING + 1))
    assert len(of(rig.all, Commit)) == 1
    return rig


def ask(rig: Rig, kind: RequestKind, name: str = "asked") -> list[int]:
    place = None if kind is RequestKind.CHECKPOINT else f"/there/{name}"
    return triggers(rig.give(SnapshotRequested(SnapshotRequest(name, kind, place))))


def test_a_hanging_commit_holds_the_next_checkpoint() -> None:
    rig = full()
    assert [checkpoint(rig) for _ in range(1000)] == [None] * 1000
    assert len(rig.job.commits.unconfirmed()) == MOST_WAITING
    assert rig.job.next_wake() is None, "nothing is due until the commit is done: no busy waiting"
    (first,) = of(rig.all, Commit)
    out = rig.committed(first)
    assert triggers(out) == [MOST_WAITING + 1], "due since long"


def test_the_manifest_does_not_grow_with_the_time_a_committer_takes() -> None:
    rig = Rig(interval_ms=100).run()
    for round_ in range(300):
        checkpoint(rig)
        if round_ % 20 == 19:
            publish(rig, triggers(rig.committed(of(rig.all, Commit)[-1])))
    carried = [len(publish.manifest.committables) for publish in of(rig.all, Publish)]
    assert len(carried) > 30 and max(carried) <= MOST_WAITING + 1


def test_people_are_told_once_why_and_once_that_it_goes_on() -> None:
    rig = full()
    for _ in range(5):
        checkpoint(rig)
    (held,) = of(rig.all, Held)
    assert held.why is not None and f"snapshots 1 to {MOST_WAITING}" in held.why
    assert rig.job.checkpoints.held == held.why
    rig.committed(of(rig.all, Commit)[0])
    assert [one.why for one in of(rig.all, Held)] == [held.why, None]
    assert rig.job.checkpoints.held is None
    rig.ack_all(MOST_WAITING + 1)
    rig.published(MOST_WAITING + 1)
    assert rig.job.checkpoints.history[-1]["held_ms"] == 400, "how long it was late"
    assert [row["held_ms"] for row in rig.job.checkpoints.history[:-1]] == [0] * MOST_WAITING


def test_nothing_is_told_while_no_checkpoint_is_due() -> None:
    rig = full()
    rig.tick(50)
    assert not of(rig.all, Held) and rig.job.checkpoints.held is None


@pytest.mark.parametrize("kind", [RequestKind.CHECKPOINT, RequestKind.SAVEPOINT])
def test_what_people_ask_for_waits_too_and_is_not_lost(kind: RequestKind) -> None:
    rig = full()
    assert ask(rig, kind) == []
    assert of(rig.all, Held), "they hear why"
    assert MOST_WAITING + 1 in triggers(rig.committed(of(rig.all, Commit)[0]))
    assert not of(rig.all, Answer)


def test_a_stop_does_not_wait_before_it_begins() -> None:
    rig = full()
    assert ask(rig, RequestKind.STOP) == [MOST_WAITING + 1], "nothing comes behind it"
    rig.ack_all(MOST_WAITING + 1, b"last")
    rig.published(MOST_WAITING + 1)
    assert rig.phase is JobPhase.RUNNING, "it ends when all is committed"
    (first,) = of(rig.all, Commit)
    (second,) = of(rig.committed(first), Commit)
    rig.committed(second)
    rig.gang_gone()
    assert rig.end is not None and rig.end.answers[0].error is None


def test_a_stop_waits_for_the_savepoint_that_was_asked_for_before_it() -> None:
    rig = full()
    ask(rig, RequestKind.SAVEPOINT, "copy")
    assert ask(rig, RequestKind.STOP, "stop") == []
    assert triggers(rig.committed(of(rig.all, Commit)[0])) == [MOST_WAITING + 1]
    rig.ack_all(MOST_WAITING + 1)
    assert triggers(rig.give(SavepointWritten(Epoch(MOST_WAITING + 1)))) == [MOST_WAITING + 2]


def test_the_final_snapshot_is_not_held() -> None:
    rig = full()
    assert triggers(rig.finish_tasks()) == [MOST_WAITING + 1]


def test_a_committer_that_wants_to_try_again_holds_too() -> None:
    rig = full(committer_retries=1000, commit_backoff_ms=1)
    for _ in range(50):
        rig.committed(of(rig.all, Commit)[-1], CommitOutcome.RETRY)
        assert checkpoint(rig) is None
    assert len(rig.job.commits.unconfirmed()) == MOST_WAITING
    rig.committed(of(rig.all, Commit)[-1])
    assert rig.job.commits.is_empty


def test_a_new_attempt_commits_what_is_old_before_it_begins_and_is_not_held() -> None:
    rig = full(restart=FixedDelay(100, 10))
    checkpoint(rig)
    rig.give(CommitFailed(OSError("broker")))
    rig.gang_gone()
    rig.tick(10)
    rig.claimed(restored(rig, MOST_WAITING, *(str(n).encode() for n in range(10))), MOST_WAITING)
    assert rig.job.checkpoints.held is None
    rig.splits("s0")
    rig.registered()
    assert rig.phase is JobPhase.PREPARING, "not before the old ones are committed"
    rig.committed(of(rig.all, Commit)[-1])
    rig.registered()
    rig.deployed()
    assert rig.phase is JobPhase.RUNNING
    assert checkpoint(rig) == MOST_WAITING + 1


def test_several_in_flight_are_bounded_by_their_number() -> None:
    rig = Rig(interval_ms=100, max_concurrent=3).run()
    for _ in range(200):
        publish(rig, triggers(rig.tick(100)))
    assert len({item.epoch for item in rig.job.commits.unconfirmed()}) <= MOST_WAITING + 3


def test_requests_that_wait_are_bounded() -> None:
    rig = full()
    for number in range(MOST_REQUESTS):
        ask(rig, RequestKind.CHECKPOINT, f"n{number}")
    assert not of(rig.all, Answer)
    ask(rig, RequestKind.CHECKPOINT, "one more")
    (answer,) = of(rig.all, Answer)
    assert answer.request.id == "one more" and str(MOST_REQUESTS) in str(answer.error)


def test_the_log_of_phases_is_bounded() -> None:
    rig = Rig(interval_ms=100, restart=FixedDelay(100_000, 0)).run()
    for _ in range(2000):
        rig.give(CommitFailed(OSError("broker")))
        rig.gang_gone()
        rig.tick(1)
        rig.run()
    assert len(rig.job.log) <= 1000


def test_the_driver_wakes_once_to_tell_that_the_next_one_is_held() -> None:
    rig = full()
    due = rig.job.next_wake()
    assert due is not None, "nothing else may happen until the commit is done"
    rig.tick(100)
    assert rig.job.checkpoints.held is not None and rig.job.next_wake() is None
