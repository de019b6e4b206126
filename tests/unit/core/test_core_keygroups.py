"""Key-group ranges: the values of the specification, and the two functions against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ids import KeyGroup, SubtaskIndex
from penstock.core.keygroups import key_group_range, owner
from penstock.graph.plan import default_max_parallelism


def test_the_documented_ranges() -> None:
    assert [key_group_range(SubtaskIndex(i), 3, 128) for i in range(3)] == [(0, 42), (43, 85), (86, 127)]
    assert key_group_range(SubtaskIndex(0), 1, 128) == (0, 127)
    assert [key_group_range(SubtaskIndex(i), 4, 4) for i in range(4)] == [(0, 0), (1, 1), (2, 2), (3, 3)]


@given(st.integers(1, 300).flatmap(lambda p: st.tuples(st.just(p), st.integers(p, 1000))))
def test_ranges_tile_the_groups_and_agree_with_the_owner(sizes: tuple[int, int]) -> None:
    parallelism, most = sizes
    following = 0
    lengths = set()
    for index in range(parallelism):
        first, last = key_group_range(SubtaskIndex(index), parallelism, most)
        assert first == following
        assert {owner(KeyGroup(group), parallelism, most) for group in (first, last)} == {index}
        lengths.add(last - first + 1)
        following = last + 1
    assert following == most
    assert max(lengths) - min(lengths) <= 1 and min(lengths) >= 1


def test_the_owners_of_many_are_those_of_each() -> None:
    groups = np.arange(32768, dtype=np.int64)
    many = owner(groups, 30001, 32768)
    assert many.tolist() == [owner(KeyGroup(group), 30001, 32768) for group in range(32768)]


@pytest.mark.parametrize(
    ("parallelism", "most"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (171, 256), (172, 512), (30000, 32768)],
)
def test_the_default_maximum(parallelism: int, most: int) -> None:
    assert default_max_parallelism(parallelism) == most
