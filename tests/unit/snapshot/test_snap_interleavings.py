"""The journal protocol, checked in every reachable state (:mod:`snap_explorer`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from snap_explorer import OLD, Driver, explore

from penstock.snapshot.journal import Seq, entry_path, seq_of
from penstock.snapshot.repository import Repository


def zombie(*calls: str) -> Driver:
    return replace(OLD, calls=calls, permits=frozenset())


def successor(*calls: str, owner: str = "new") -> Driver:
    return Driver(owner, ("claim", *calls))


def no_permit_after_recovery(old: Driver, new: Driver) -> None:
    """Whatever the old driver may commit is part of what the new one recovered."""
    if new.recovered is not None:
        assert all(permit.epoch <= new.recovered for permit in old.permits)


def compacting(driver: Driver, fences: int = 0) -> Driver:
    """Its claims carry what counts, and delete everything below, if there are more fences than these."""
    return replace(driver, crowded=fences)


@pytest.mark.parametrize("fences", [0, 1])
def test_snap_a_zombie_behind_a_fence_that_carries_what_counts(fences: int) -> None:
    """Its numbers are deleted by the claim alone, with nothing published in between."""
    new = compacting(successor("recover", "claim", "publish", "retain"), fences)
    states, ends = explore(zombie("publish", "publish"), new, coarse=True)
    assert states > 300
    assert {driver.fenced for driver, _ in ends} == {True, False}
    assert any(not old.permits for old, _ in ends)
    for old, taker in ends:
        assert not taker.fenced
        no_permit_after_recovery(old, taker)


def test_snap_a_compaction_from_the_top_down_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ascending order is what a zombie is caught by, here as in retention."""

    def downwards(self: Repository, seq: Seq) -> None:
        numbers = (seq_of(path) for path in self.root.list("journal"))
        for number in sorted((n for n in numbers if n is not None and n < seq), reverse=True):
            self.root.delete(entry_path(number))

    monkeypatch.setattr(Repository, "_delete_entries_below", downwards)
    # Steps are remembered by driver: this one has a name of its own.
    new = compacting(successor("recover", "claim", owner="downwards"), fences=1)
    with pytest.raises(AssertionError):
        for old, taker in explore(zombie("publish"), new, coarse=True)[1]:
            no_permit_after_recovery(old, taker)


def test_snap_two_compacting_successors_race_for_the_job() -> None:
    first = compacting(successor("recover", "publish", "retain", owner="a"))
    second = compacting(successor("recover", "publish", owner="b"))
    _, ends = explore(first, second, coarse=True)
    assert len(ends) > 1
    for one, other in ends:
        assert not (one.fenced and other.fenced)
        assert one.ownership != other.ownership


def test_snap_a_late_claim_at_a_number_that_a_compaction_deleted() -> None:
    late, new = successor("publish", owner="late"), compacting(successor("claim", "claim", "publish"))
    _, ends = explore(late, new, coarse=True)
    assert {(one.fenced, other.fenced) for one, other in ends} >= {(False, True), (False, False)}


def test_snap_two_drivers_share_one_history() -> None:
    states, ends = explore(zombie("publish", "publish"), successor("recover", "publish"))
    assert states > 300
    assert {old.fenced for old, _ in ends} == {True, False}
    assert {new.recovered for _, new in ends} == {1, 2, 3}
    for old, new in ends:
        assert not new.fenced
        no_permit_after_recovery(old, new)


def test_snap_zombie_gets_no_permit_when_its_numbers_were_deleted() -> None:
    calls = ("recover", "publish", "retain", "publish", "retain")
    _, ends = explore(zombie("publish", "publish"), successor(*calls), coarse=True)
    assert any(old.fenced and not old.permits for old, _ in ends)
    for old, new in ends:
        assert not new.fenced
        no_permit_after_recovery(old, new)


def test_snap_zombie_that_also_tidies_up() -> None:
    _, ends = explore(zombie("publish", "retain"), successor("recover", "publish", "retain"))
    assert ends
    for old, new in ends:
        assert not new.fenced
        no_permit_after_recovery(old, new)


def test_snap_two_successors_race_for_the_job() -> None:
    _, ends = explore(successor("recover", "publish", owner="a"), successor("recover", "publish", owner="b"))
    assert ends
    for first, second in ends:
        assert not (first.fenced and second.fenced)
        assert first.ownership != second.ownership


def test_snap_a_claim_that_is_overtaken_by_retention() -> None:
    calls = ("publish", "retain", "publish", "retain")
    _, ends = explore(successor(owner="late"), successor(*calls), coarse=True)
    assert {(late.fenced, new.fenced) for late, new in ends} >= {(False, True), (False, False)}


def test_snap_restart_of_a_driver_that_was_taken_over() -> None:
    _, ends = explore(zombie("claim", "recover", "publish"), successor("recover", "publish"))
    assert {old.fenced for old, _ in ends} == {True, False}
    for old, new in ends:
        assert not new.fenced
        no_permit_after_recovery(old, new)


def test_snap_zombie_after_the_job_succeeded() -> None:
    _, ends = explore(zombie("publish"), successor("recover", "publish", "drop"))
    assert ends
    for old, new in ends:
        assert not new.fenced
        no_permit_after_recovery(old, new)


@pytest.mark.slow
def test_snap_three_drivers() -> None:
    drivers = zombie("publish"), successor("publish", "retain", owner="a"), successor(owner="b")
    states, ends = explore(*drivers, coarse=True)
    assert states > 1000
    for end in ends:
        assert not all(driver.fenced for driver in end)
