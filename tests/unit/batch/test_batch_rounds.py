"""Rounds: they end wherever keys do, and where order matters whatever was sorted together."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.batch.inputs import IncomingEdge, Reader
from penstock.batch.outputs import Outbox, OutgoingEdge, edge_output
from penstock.batch.sizes import Sizes
from penstock.batch.wire import SORTED_BY
from penstock.core.batch import Batch
from penstock.exchange.partition import Hash
from penstock.graph.bounded import Form

BY_KEY = Hash(selector=lambda row: row[0])
EDGE = OutgoingEdge(0, Form.RECORDS, BY_KEY, 0, 1, 16)


def rounds(batches: list[Batch], sent: Sizes, read: Sizes, in_order: bool = False) -> list[list[Any]]:
    """The records of each round, of what one sender sends to one reader."""
    outbox = Outbox()
    output = edge_output(EDGE, 0, 1, outbox, sent)
    for batch in batches:
        output.emit(batch)
    output.flush()
    rows = pa.Table.from_batches(list(outbox.take()))
    heard: list[list[Any]] = [[]]

    def process(batch: Batch, input_index: int) -> None:
        heard[-1] += batch.to_rows()

    def end_round() -> None:
        heard.append([])

    reader = Reader({0: IncomingEdge(Form.RECORDS, 0)}, process, end_round, read, in_order)
    for some in rows.sort_by([(name, "ascending") for name in SORTED_BY]).to_batches(3):
        deque(reader.feed(some), maxlen=0)
    deque(reader.end(), maxlen=0)
    reader.close()
    return heard


def test_a_round_ends_where_all_that_is_sorted_together_is_one_key() -> None:
    """Records so large that a lot has one of them: what they left in state must not pile up to the end."""
    sizes = replace(Sizes(), ready_bytes=10_000)
    heard = rounds([Batch.of_rows([(n, "x" * 10_000)]) for n in range(20)], sizes, sizes)
    assert [len(some) for some in heard] == [1] * 20


@pytest.mark.parametrize("few", [1, 2, 3])
def test_a_round_ends_where_a_key_is_as_long_as_what_is_sorted_together(few: int) -> None:
    heard = rounds([Batch.of_rows([(n // few,) for n in range(30 * few)])], Sizes.few(few), Sizes.few(few))
    assert len(heard) > 10 and sum(heard, []) != []
    assert len({row for some in heard for row in set(some)}) == sum(len(set(some)) for some in heard)


def test_rounds_of_large_records_are_short() -> None:
    sizes = replace(Sizes(), ready_bytes=100_000)
    heard = rounds([Batch.of_rows([(n, "x" * 10_000) for n in range(200)])], Sizes(), sizes)
    assert max(map(len, heard)) <= 10


def test_where_order_matters_rounds_do_not_depend_on_what_was_sorted_together() -> None:
    """A second try may get other pieces: their size is an estimate, and timers of a round fire by time."""
    rng = np.random.default_rng(5)
    rows = [
        (int(key), "x" * int(size))
        for key, size in zip(rng.integers(0, 200, 3000), rng.integers(0, 90, 3000), strict=True)
    ]
    batches = [Batch.of_rows(rows[start : start + 100]) for start in range(0, 3000, 100)]
    read = replace(Sizes(), ready_rows=400, certain_rows=100, ready_bytes=20_000)
    found = [
        rounds(batches, replace(Sizes(), sorted_bytes=size, piece_rows=cut), read, in_order=True)
        for size in (3_000, 50_000, 16 << 20)
        for cut in (1, 7, 128)
    ]
    assert all(heard == found[0] for heard in found)
    assert len(found[0]) > 10 and sorted(sum(found[0], [])) == sorted(rows)
