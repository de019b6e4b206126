"""Restart strategies, and how splits are assigned."""

from __future__ import annotations

import random

from coord_rig import plan_of
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.restart import RestartCounter
from penstock.coordinator.split_assigner import SourceSplits
from penstock.core.ids import OperatorId
from penstock.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartPolicy


def counter(policy: RestartPolicy) -> RestartCounter:
    return RestartCounter(policy, random.Random(3))


def test_none() -> None:
    assert counter(NoRestart()).next_delay(0) is None


def test_a_fixed_number_of_times() -> None:
    count = counter(FixedDelay(2, 70))
    assert [count.next_delay(now) for now in (0, 1_000_000, 2_000_000)] == [70, 70, None]


def test_a_rate_of_failures() -> None:
    count = counter(FailureRate(2, 100, 5))
    assert [count.next_delay(now) for now in (0, 50, 100, 160, 199)] == [5, 5, 5, 5, None]


def test_growing_pauses_with_a_ceiling() -> None:
    count = counter(ExponentialDelay(100, 1000, 3.0, 10_000, 0.0))
    assert [count.next_delay(now) for now in (0, 500, 1500, 3000, 5000)] == [100, 300, 900, 1000, 1000]


def test_a_quiet_time_starts_over() -> None:
    count = counter(ExponentialDelay(100, 1000, 2.0, 5000, 0.0, attempts=3))
    assert [count.next_delay(now) for now in (0, 10, 20)] == [100, 200, 400]
    assert counter(ExponentialDelay(100, 1000, 2.0, 5000, 0.0)).next_delay(0) == 100
    assert count.next_delay(20 + 5000 + 399) is None, "one failure too many, not quiet for long enough"
    again = counter(ExponentialDelay(100, 1000, 2.0, 5000, 0.0, attempts=3))
    assert [again.next_delay(now) for now in (0, 10, 10 + 5200, 10 + 5200 + 1)] == [100, 200, 100, 200]


@given(st.integers(0, 2**32))
def test_jitter_stays_within_its_share(seed: int) -> None:
    count = RestartCounter(ExponentialDelay(1000, 1000, 2.0, 10**9, 0.1), random.Random(seed))
    for now in range(5):
        delay = count.next_delay(now)
        assert delay is not None and 900 <= delay <= 1100


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(1, 4))
def test_splits_are_assigned_once_and_evenly(rounds: list[int], parallelism: int) -> None:
    subtasks = plan_of(parallelism).vertices[0].subtasks()
    source = SourceSplits(OperatorId("s"), subtasks)
    got: dict[object, list[int]] = {subtask: [] for subtask in subtasks}
    given_out = 0
    for size in rounds:
        source.found(tuple(range(given_out, given_out + size)), b"", False)
        given_out += size
        for subtask, (splits, final) in source.assign().items():
            got[subtask] += splits
            assert splits and not final
    source.found((), b"end", True)
    assert source.assign() == {subtask: ((), True) for subtask in subtasks}
    assert source.assign() == {}
    assert sorted(split for share in got.values() for split in share) == list(range(given_out))
    assert max(map(len, got.values())) - min(map(len, got.values())) <= 1
