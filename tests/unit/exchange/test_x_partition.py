"""Routers: nothing is lost, nothing doubled, and equal keys meet."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, KeyError_
from penstock.core.ids import KeyGroup
from penstock.core.keygroups import hash_value, owner
from penstock.core.row import Row
from penstock.exchange.partition import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
    channel_targets,
    field_selector,
    make_router,
    rescale_targets,
)

MAX = 128
SPECS: list[Partitioning] = [
    Forward(),
    Rebalance(),
    Rescale(),
    Shuffle(),
    Global(),
    Hash(lambda row: row["v"] % 7, ()),
    Hash(None, ("v",)),
    Hash(None, ("v", "w")),
    Custom(lambda key, count: key % count, lambda row: row["v"]),
]


def make(values: list[int], columnar: bool, timed: bool) -> Batch:
    times = np.array(values, np.int64) * 10 if timed else None
    names = pa.array([str(value) for value in values], pa.string())
    if columnar:
        return Batch.of_columns(pa.record_batch({"v": pa.array(values, pa.int64()), "w": names}), times)
    return Batch.of_rows([Row(v=value, w=str(value)) for value in values], times)


def records(batch: Batch) -> list[tuple[Any, ...]]:
    return [(row["v"], row["w"], time) for row, time in zip(batch.to_rows(), batch.time_list(), strict=True)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.strategy)
@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 50), max_size=25), max_size=4),
    flags=st.tuples(st.booleans(), st.booleans()),
    senders=st.integers(1, 5),
    receivers=st.integers(1, 5),
    data=st.data(),
)
def test_every_record_arrives_once_and_in_order(
    spec: Partitioning,
    batches: list[list[int]],
    flags: tuple[bool, bool],
    senders: int,
    receivers: int,
    data: st.DataObject,
) -> None:
    if isinstance(spec, Forward):
        receivers = senders
    sender = data.draw(st.integers(0, senders - 1))
    router = make_router(spec, sender, senders, receivers, MAX)
    allowed = set(channel_targets(spec, sender, senders, receivers))
    for values in batches:
        batch = make(values, *flags)
        arrived: Counter[tuple[Any, ...]] = Counter()
        for target, share in router.route(batch):
            assert target in allowed
            part = records(share)
            arrived.update(part)
            whole = iter(records(batch))
            assert all(record in whole for record in part), "order within a channel"
            if isinstance(spec, Hash):
                for key in share.key_list():
                    assert owner(KeyGroup(hash_value(key) % MAX), receivers, MAX) == target
        assert arrived == Counter(records(batch))


@pytest.mark.parametrize("columnar", [False, True])
def test_broadcast_reaches_everybody(columnar: bool) -> None:
    batch = make([1, 2, 3], columnar, True)
    shares = dict(make_router(Broadcast(), 1, 2, 3, MAX).route(batch))
    assert sorted(shares) == [0, 1, 2] and all(records(share) == records(batch) for share in shares.values())


def test_round_robin_goes_on_where_it_stopped() -> None:
    router = make_router(Rebalance(), 0, 1, 3, MAX)
    counts: Counter[int] = Counter()
    for size in (1, 2, 4, 1, 5, 2):
        for target, share in router.route(make(list(range(size)), False, False)):
            counts[target] += len(share)
    assert counts == {0: 5, 1: 5, 2: 5}


def test_rows_and_columns_meet_at_the_same_subtask() -> None:
    values = list(range(40))
    places = []
    for columnar in (False, True):
        router = make_router(Hash(None, ("w",)), 0, 1, 4, MAX)
        places.append(
            {
                record[0]: target
                for target, share in router.route(make(values, columnar, False))
                for record in records(share)
            }
        )
    assert places[0] == places[1] and len(set(places[0].values())) == 4


def test_a_row_alone_goes_where_it_goes_among_others() -> None:
    nan, minus_nan = float("nan"), np.copysign(np.float64("nan"), -1)
    texts = ["", "tea", "Zürich", "\udc80", "x" * 200]
    numbers = [0, -1, 2**63 - 1, 2**63, -(2**70), True, 0.0, -0.0, 1.0, 2.5, 1e300, nan, minus_nan]
    numpys = [np.int32(7), np.uint64(2**63), np.float32(0.1), np.bool_(True)]
    others = [b"", b"tea", (1, None), Row(a=1), Decimal("1.50"), dt.date(2024, 5, 1), uuid.UUID(int=5)]
    keys = [*texts, *numbers, *numpys, *others]
    together = make_router(Hash(lambda value: value), 0, 1, 7, MAX)
    alone = make_router(Hash(lambda value: value), 0, 1, 7, MAX)
    kinds = list(dict.fromkeys(map(type, keys)))
    assert len(kinds) > 10
    for kind in kinds:
        same_kind = [key for key in keys if type(key) is kind]
        expected = {
            id(row): target
            for target, share in together.route(Batch.of_rows(same_kind))
            for row in share.rows
        }
        for row in same_kind:
            ((target, share),) = alone.route(Batch.of_rows([row]))
            assert target == expected[id(row)] and share.rows == [row] and len(share.key_list()) == 1, row


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_rescale_covers_all_receivers_evenly(senders: int, receivers: int) -> None:
    shares = [rescale_targets(sender, senders, receivers) for sender in range(senders)]
    reached = Counter(target for share in shares for target in share)
    assert set(reached) == set(range(receivers)) and all(shares)
    assert max(reached.values()) - min(reached.values()) <= 1
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    if senders <= receivers:
        assert set(reached.values()) == {1}


@pytest.mark.parametrize("answer", [-1, 3, 1.0, None, "0"])
def test_a_custom_partitioner_out_of_range_is_refused(answer: Any) -> None:
    router = make_router(Custom(lambda key, count: answer, lambda row: row), 0, 1, 3, MAX)
    with pytest.raises(ConfigError, match="from 0 to 2"):
        list(router.route(Batch.of_rows([1])))


@pytest.mark.parametrize("receivers", [1, 2])
def test_none_is_no_key_at_any_parallelism(receivers: int) -> None:
    columns = pa.record_batch({"a": [1, None], "b": pa.array(["x", None])})
    with pytest.raises(KeyError_):
        make_router(Hash(None, ("a",)), 0, 1, receivers, MAX).route(Batch.of_columns(columns))
    with pytest.raises(KeyError_):
        make_router(Hash(lambda row: row, ()), 0, 1, receivers, MAX).route(Batch.of_rows(["a", None]))


@pytest.mark.parametrize("receivers", [1, 2])
def test_none_inside_a_tuple_is_a_key_at_any_parallelism(receivers: int) -> None:
    columns = pa.record_batch({"a": pa.array([1, None]), "b": pa.array(["x", "y"])})
    routed = make_router(Hash(None, ("a", "b")), 0, 1, receivers, MAX).route(Batch.of_columns(columns))
    assert sum(len(share) for _, share in routed) == 2


def test_a_missing_key_column_is_named() -> None:
    with pytest.raises(ConfigError, match="'z'"):
        make_router(Hash(None, ("z",)), 0, 1, 2, MAX).route(make([1], True, False))


def test_field_selectors() -> None:
    class Thing:
        a, b = 1, 2

    assert field_selector(("a",))(Row(a=5)) == 5
    assert field_selector(("a", "b"))({"a": 1, "b": 2}) == (1, 2) == field_selector(("a", "b"))(Thing())


def test_strategies_are_named_as_plans_show_them() -> None:
    names = {spec.strategy for spec in [*SPECS, Broadcast()]}
    assert names == {"FORWARD", "REBALANCE", "RESCALE", "SHUFFLE", "GLOBAL", "HASH", "CUSTOM", "BROADCAST"}
