"""Key groups counted by sampling: right about what is hot, bounded, and of the last while."""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Batch
from penstock.core.keygroups import hash_values, key_groups
from penstock.core.messages import HotGroups
from penstock.exchange.hot_groups import GroupCounts
from penstock.exchange.partition import Hash, Rebalance, make_router


def test_the_hottest_come_first_with_about_their_share() -> None:
    counts = GroupCounts(128)
    assert counts.hottest() is None
    groups = np.arange(128).repeat(10)
    hot = np.concatenate([groups, np.full(1280, 17)])
    np.random.default_rng(3).shuffle(hot)
    for _ in range(200):
        counts.saw(hot)
    found = counts.hottest()
    assert found is not None and list(found.counts) == [17]
    assert 0.4 < found.counts[17] / found.records < 0.6


def test_old_records_are_forgotten() -> None:
    counts = GroupCounts(16)
    for _ in range(17 * 400):
        counts.saw(np.zeros(500, np.int64))
    for _ in range(17 * 1200):
        counts.saw(np.ones(500, np.int64))
    found = counts.hottest()
    assert found is not None and found.records < 1 << 16
    assert next(iter(found.counts)) == 1


def test_one_batch_in_many_and_few_of_its_records() -> None:
    counts = GroupCounts(4)
    for _ in range(17):
        counts.saw(np.zeros(100_000, np.int64))
    found = counts.hottest()
    assert found is not None and found.records <= 256


def test_records_that_come_alone_count_like_others() -> None:
    router = make_router(Hash(lambda value: value), 0, 1, 2, 128)
    for number in range(17 * 300):
        router.route(Batch.of_rows([5 if number % 4 else number]))
    assert router.counts is not None
    found = router.counts.hottest()
    assert found is not None and found.records == 300
    hottest = key_groups(hash_values([5]), 128)[0]
    assert list(found.counts) == [hottest] and 150 < found.counts[hottest] < 290


def test_only_routers_by_key_count_and_only_among_several_receivers() -> None:
    keyed = make_router(Hash(lambda value: value), 0, 1, 2, 128)
    alone = make_router(Hash(lambda value: value), 0, 1, 1, 128)
    for router in (keyed, alone):
        list(router.route(Batch.of_rows([1, 2, 2, 2], [0, 0, 0, 0])))
    assert keyed.counts is not None and alone.counts is not None
    found = keyed.counts.hottest()
    assert found is not None and found.records == 4 and max(found.counts.values()) == 3
    assert alone.counts.hottest() is None
    assert make_router(Rebalance(), 0, 1, 2, 128).counts is None


def test_samples_are_joined() -> None:
    one, other = HotGroups(10, {1: 5, 2: 1}), HotGroups(20, {2: 9})
    assert one.joined(other) == HotGroups(30, {1: 5, 2: 10}) and one.joined(None) is one


def test_of_many_hot_groups_the_hottest_are_told() -> None:
    counts = GroupCounts(1000)
    counts.saw(np.concatenate([np.full(20 - group, group) for group in range(20)]))
    found = counts.hottest()
    assert found is not None and list(found.counts) == list(range(8)) and found.counts[0] == 20
