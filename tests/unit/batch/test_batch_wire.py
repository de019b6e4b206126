"""Rows between vertices: bodies, places, parts, and what senders make of records."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch.inputs import IncomingEdge, Reader
from penstock.batch.outputs import Outbox, OutgoingEdge, edge_output
from penstock.batch.sizes import Sizes
from penstock.batch.wire import (
    FIRST_PART,
    SORTED_BY,
    batch_of_frame,
    first_place,
    frame,
    parts_of,
)
from penstock.core.batch import Batch
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import hash_values
from penstock.exchange.partition import Broadcast, Hash, Partitioning, Rebalance
from penstock.graph.bounded import Form


def test_columns_stay_columns_in_frames() -> None:
    columns = pa.record_batch({"k": ["a", "b"], "v": [1, 2]})
    framed = batch_of_frame(frame(Batch.of_columns(columns, np.array([5, 6], np.int64), ("k",))))
    assert framed.columns.equals(columns) and framed.key_columns == ("k",) and framed.time_list() == [5, 6]


def test_places_sort_by_input_then_edge_then_sender_then_arrival() -> None:
    places = [
        first_place(input_index, edge, sender) + n
        for input_index in (0, 1)
        for edge in (0, 1, 8191)
        for sender in (0, 1, 32767)
        for n in (0, 1, 2**34 - 1)
    ]
    assert places == sorted(places) and len(set(places)) == len(places) and places[-1] < 2**63


def test_no_key_comes_before_what_is_read_first() -> None:
    assert parts_of(np.array([0, 2**63, 2**64 - 1], np.uint64)).tolist() == [0, FIRST_PART + 1, -1]


SIZES = Sizes()

# --- from a sender to a reader ------------------------------------------------------------------


def sent(
    form: Form, partitioning: Partitioning, batches: list[Batch], receivers: int, sizes: Sizes = SIZES
) -> pa.Table:
    outbox = Outbox()
    output = edge_output(OutgoingEdge(0, form, partitioning, 0, receivers, 16), 0, 1, outbox, sizes)
    for batch in batches:
        output.emit(batch)
    output.flush()
    return pa.Table.from_batches(list(outbox.take()))


def received(rows: pa.Table, form: Form, target: int, at_a_time: int, sizes: Sizes = SIZES) -> list[Any]:
    """What a reader hands on: batches of pairs, and marks between rounds."""
    heard: list[Any] = []

    def process(batch: Batch, input_index: int) -> None:
        keys = batch.key_list() if form in (Form.RECORDS, Form.GROUPS) else [None] * len(batch)
        heard.extend(zip(keys, batch.to_rows(), batch.time_list(), strict=True))

    reader = Reader({0: IncomingEdge(form, 0)}, process, lambda: heard.append("round"), sizes)
    mine = rows.filter(pa.compute.equal(rows.column("target"), target))
    for batch in mine.sort_by([(name, "ascending") for name in SORTED_BY]).to_batches(at_a_time):
        deque(reader.feed(batch), maxlen=0)
    deque(reader.end(), maxlen=0)
    reader.close()
    return heard


BY_KEY = Hash(selector=lambda row: row[0])
RECORDS = st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 99), st.integers(0, 50)), min_size=1)


@settings(max_examples=60, deadline=None)
@given(RECORDS, st.integers(1, 3), st.integers(1, 4), st.sampled_from([SIZES, *map(Sizes.few, (1, 2, 5))]))
def test_every_key_comes_whole_and_in_order_of_time(
    records: list[Any], receivers: int, at_a_time: int, sizes: Sizes
) -> None:
    batches = [Batch.of_rows([r], [r[2]]) for r in records]
    rows = sent(Form.RECORDS, BY_KEY, batches, receivers, sizes)
    got: list[Any] = []
    for target in range(receivers):
        heard = received(rows, Form.RECORDS, target, at_a_time, sizes)
        got += [item[1] for item in heard if item != "round"]
        finished: set[str] = set()
        current: set[str] = set()
        for item in heard:
            if item == "round":
                # the key that is being read may go on; all others of the round are over
                finished |= current
                current = set()
            else:
                assert item[0] not in finished
                current.add(item[0])
        for key in {item[0] for item in heard if item != "round"}:
            mine = [item for item in heard if item != "round" and item[0] == key]
            assert [item[1] for item in mine] == sorted(
                (r for r in records if r[0] == key), key=lambda r: r[2]
            )
    assert sorted(got) == sorted(records)


def test_equal_hashes_end_together() -> None:
    """Keys are parted by hash: two with the same one share their round."""
    assert hash_values([1]) == hash_values([True])
    batch = Batch.of_rows([(1, "a"), (True, "b"), (1, "c")], [3, 2, 1])
    rows = sent(Form.RECORDS, BY_KEY, [batch], 1, Sizes.few(1))
    heard = received(rows, Form.RECORDS, 0, 1, Sizes.few(1))
    assert [item[1][1] for item in heard if item != "round"] == ["c", "b", "a"] and "round" not in heard


@pytest.mark.parametrize("count", [1, 40_000, 300_000])
def test_frames_lose_nothing_and_keep_the_order(count: int) -> None:
    batch = Batch.of_rows(list(range(count)))
    rows = sent(Form.FRAMES, Rebalance(), [batch.slice(n, n + 7000) for n in range(0, count, 7000)], 3)
    shares = [[item[1] for item in received(rows, Form.FRAMES, target, 100)] for target in range(3)]
    assert sorted(sum(shares, [])) == list(range(count))
    assert all(share == sorted(share) for share in shares)
    assert rows.num_rows <= 3 + count // 10_000


def test_what_is_read_first_goes_to_everybody() -> None:
    rows = sent(Form.FIRST, Broadcast(), [Batch.of_rows(["rule"])], 3)
    assert rows.column("part").to_pylist() == [FIRST_PART] * 3
    assert all(received(rows, Form.FIRST, target, 9) == [(None, "rule", MIN_TIME)] for target in range(3))


def test_groups_come_one_after_the_other_in_columns() -> None:
    values = pa.array(np.arange(1000))
    batch = Batch.of_columns(pa.record_batch({"k": values}), np.zeros(1000, np.int64))
    rows = sent(Form.GROUPS, Hash(columns=("k",)), [batch, batch], 2)
    assert rows.num_rows == 16, "one frame per key group"
    heard = received(rows, Form.GROUPS, 0, 3) + received(rows, Form.GROUPS, 1, 3)
    assert sorted(key for key, *_ in heard) == sorted([*range(1000), *range(1000)])
