"""Sorted pieces: what a sender makes of records, and the order in which a reader hands them on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch import merge
from penstock.batch.inputs import IncomingEdge, Reader
from penstock.batch.merge import Merge, Sorted
from penstock.batch.outputs import EdgeOutput, Outbox, OutgoingEdge, edge_output
from penstock.batch.pieces import Piece, body_of, piece_of, sendable
from penstock.batch.sizes import Sizes
from penstock.batch.spill import Spill
from penstock.batch.wire import SCHEMA, SORTED_BY, parts_of
from penstock.core.batch import Batch
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import hash_values
from penstock.core.row import Row, RowKind
from penstock.exchange.partition import Hash
from penstock.graph.bounded import Form

TINY = Sizes.few(1)
BY_KEY = Hash(selector=lambda row: row[0])


class Sender:
    """A sender of records to one receiver; its rows, as a shuffle would move them."""

    def __init__(self, number: int, input_index: int, sizes: Sizes, by: Hash = BY_KEY) -> None:
        self.outbox = Outbox()
        edge = OutgoingEdge(input_index, Form.RECORDS, by, input_index, 1, 16)
        self.output: EdgeOutput = edge_output(edge, number, 4, self.outbox, sizes)

    def rows(self) -> list[pa.RecordBatch]:
        self.output.flush()
        return list(self.outbox.take())


def shuffled(senders: list[Sender]) -> list[dict[str, Any]]:
    """The rows of all senders as their receiver gets them."""
    table = pa.Table.from_batches([batch for sender in senders for batch in sender.rows()])
    return list(table.sort_by([(name, "ascending") for name in SORTED_BY]).to_pylist())


def pieces(senders: list[Sender]) -> list[Piece]:
    return [piece_of(row["body"], row["edge"], row["place"]) for row in shuffled(senders)]


def merged(found: list[Piece], sizes: Sizes) -> Iterator[Sorted]:
    merging = Merge(sizes)
    for piece in found:
        yield from merging.add(piece)
    yield from merging.end()
    merging.close()


def records(found: list[Piece], sizes: Sizes) -> list[tuple[int, Any, int]]:
    """Input, record and time, in the order in which they are handed on."""
    return [
        (index, row, time)
        for ready in merged(found, sizes)
        for batch, index in ready.turns(0, len(ready))
        for row, time in zip(batch.to_rows(), batch.time_list(), strict=True)
    ]


INPUT = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from("abcd"), st.integers(0, 5)), max_size=60
)
"""Sender, input, key and time of each record."""


@settings(max_examples=150, deadline=None)
@given(INPUT, st.integers(1, 4), st.booleans(), st.booleans())
def test_the_order_is_that_of_key_time_input_sender_and_arrival(
    items: list[tuple[int, int, str, int]], few: int, columnar: bool, timed: bool
) -> None:
    sizes, by = Sizes.few(few), Hash(columns=("k",))
    senders = {(s, i): Sender(s, i, sizes, by) for s in range(4) for i in range(2)}
    for number, (sender, index, key, time) in enumerate(items):
        times = np.array([time], np.int64) if timed else None
        if columnar and index:
            columns = pa.record_batch({"k": [key], "n": [number]})
            senders[sender, index].output.emit(Batch.of_columns(columns, times))
        else:
            senders[sender, index].output.emit(Batch(rows=[Row(k=key, n=number)], times=times))
    parts = parts_of(hash_values([key for *_, key, _ in items])).tolist() if items else []
    at = [time if timed else MIN_TIME for *_, time in items]
    order = sorted(range(len(items)), key=lambda n: (parts[n], at[n], items[n][1], items[n][0], n))
    expected = [(items[n][1], Row(k=items[n][2], n=n), at[n]) for n in order]
    assert records(pieces(list(senders.values())) if items else [], sizes) == expected


@settings(max_examples=60, deadline=None)
@given(INPUT, st.integers(1, 3))
def test_what_is_handed_on_comes_before_all_that_follows(items: list[Any], few: int) -> None:
    sender = Sender(0, 0, Sizes.few(few))
    for _, _, key, time in items:
        sender.output.emit(Batch.of_rows([(key,)], [time]))
    heard = list(merged(pieces([sender]), Sizes.few(few))) if items else []
    spots = [spot for some in heard for spot in zip(some.parts, some.times, some.places, strict=True)]
    assert spots == sorted(spots) and len(spots) == len(items)


class Counted(Spill):
    """Counts what is written."""

    runs = 0

    def write(self, run: Piece) -> None:
        type(self).runs += 1
        super().write(run)


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(merge, "Spill", Counted)
    Counted.runs = 0
    return Counted


def test_what_does_not_fit_goes_through_a_file(spilled: type[Counted]) -> None:
    sender = Sender(0, 0, TINY)
    rng = np.random.default_rng(1)
    expected = []
    for number in range(400):
        key, time = int(rng.integers(0, 9)), int(rng.integers(0, 50))
        sender.output.emit(Batch.of_rows([(key, number)], [time]))
        expected.append((int(parts_of(hash_values([key]))[0]), time, number, key))
    found = records(pieces([sender]), TINY)
    assert [row for _, row, _ in found] == [(key, number) for _, _, number, key in sorted(expected)]
    assert spilled.runs > 1


@pytest.mark.parametrize("timed", [False, True])
def test_a_hot_key_that_comes_in_order_waits_for_nothing(spilled: type[Counted], timed: bool) -> None:
    """What is open does not grow with the key: each piece is over when the next one is there."""
    sizes = replace(
        Sizes(), sorted_rows=1000, piece_rows=100, ready_rows=100, ready_bytes=1, open_bytes=30_000
    )
    senders = [Sender(number, 0, sizes) for number in range(2)]
    for number, sender in enumerate(senders):
        for start in range(0, 20_000, 1000):
            times = np.arange(start, start + 1000) * 2 + number if timed else None
            sender.output.emit(Batch(rows=[("hot", n) for n in range(start, start + 1000)], times=times))
    found = records(pieces(senders), sizes)
    assert len(found) == 40_000 and spilled.runs == 0
    if timed:
        assert [time for *_, time in found] == list(range(40_000))


def test_inputs_take_turns_by_time() -> None:
    senders = [Sender(0, 0, TINY), Sender(0, 1, TINY)]
    senders[0].output.emit(Batch.of_rows([("k", "left", 1), ("k", "left", 3)], [1, 3]))
    senders[1].output.emit(Batch.of_rows([("k", "right", 1), ("k", "right", 2)], [1, 2]))
    sides = [(index, row[1:]) for index, row, _ in records(pieces(senders), Sizes())]
    assert sides == [(0, ("left", 1)), (1, ("right", 1)), (1, ("right", 2)), (0, ("left", 3))]


# --- bodies -------------------------------------------------------------------------------------


def there_and_back(batch: Batch) -> Piece:
    parts = np.arange(len(batch), dtype=np.int64)
    return piece_of(body_of(parts, batch.times, sendable(batch)), 3, 7)


def deleted(*values: Any) -> Row:
    row = Row(*values)
    row.set_row_kind(RowKind.DELETE)
    return row


def test_rows_keep_names_and_kinds_and_keys() -> None:
    rows = [Row(a=1, b="x"), Row(2, "y"), deleted(3, "z"), (4, "plain")]
    found = there_and_back(Batch(rows=rows, keys=[1, 2, 3, 4]))
    assert found.batch.rows == rows and found.batch.keys == [1, 2, 3, 4]
    assert found.batch.rows[0].field_names() == ("a", "b")
    assert found.batch.rows[2].get_row_kind() is RowKind.DELETE
    assert found.times.tolist() == [MIN_TIME] * 4 and found.first == (0, MIN_TIME, 7)


def test_columns_stay_columns() -> None:
    columns = pa.record_batch({"k": ["a", None], "v": [[1], [2, 3]]})
    found = there_and_back(Batch.of_columns(columns, np.array([5, 6], np.int64), ("k",)))
    assert found.batch.columns.equals(columns) and found.batch.key_columns == ("k",)
    assert found.times.tolist() == [5, 6] and (found.input_index, found.places.tolist()) == (3, [7, 8])


def test_a_dictionary_is_not_sent_with_each_piece() -> None:
    sizes = replace(Sizes(), piece_rows=1, pieces=1000)
    sender = Sender(0, 0, sizes, Hash(columns=("k",)))
    keys = pa.array([f"{n}" * 1000 for n in range(100)]).dictionary_encode()
    sender.output.emit(Batch.of_columns(pa.record_batch({"k": keys})))
    found = shuffled([sender])
    assert len(found) == 100 and max(len(row["body"]) for row in found) < 10_000
    assert {piece_of(row["body"], 0, 0).batch.to_rows()[0].k for row in found} == set(keys.to_pylist())


def test_metadata_of_a_schema_does_not_keep_pieces_apart() -> None:
    senders = [Sender(number, 0, Sizes(), Hash(columns=("k",))) for number in range(2)]
    for number, sender in enumerate(senders):
        columns = pa.record_batch({"k": [number]}).replace_schema_metadata({"file": str(number)})
        sender.output.emit(Batch.of_columns(columns))
    (ready,) = merged(pieces(senders), Sizes())
    assert len(ready.batches) == 1 and ready.batches[0].is_columnar


def test_a_giant_among_small_records_gets_a_piece_of_few() -> None:
    sizes = replace(Sizes(), most_bytes=10_000)
    sender = Sender(0, 0, sizes)
    rows: list[Any] = [(n, "x" * (20_000 if n == 500 else 10)) for n in range(1000)]
    sender.output.emit(Batch.of_rows(rows))
    found = shuffled([sender])
    assert all(len(row["body"]) <= 10_000 or len(piece_of(row["body"], 0, 0)) == 1 for row in found)
    again = [row for item in found for row in piece_of(item["body"], 0, 0).batch.to_rows()]
    assert sorted(again) == rows


def test_large_records_come_in_pieces_of_few_bytes() -> None:
    sender = Sender(0, 0, replace(Sizes(), piece_bytes=50_000))
    sender.output.emit(Batch.of_rows([(n, "x" * 10_000) for n in range(100)]))
    assert [len(row["body"]) < 60_000 for row in shuffled([sender])] == [True] * 25


def test_a_round_is_of_few_records_however_many_are_sorted_together() -> None:
    """State of a round is state in memory: what is sorted together may be far more, as columns."""
    sender = Sender(0, 0, Sizes())
    sender.output.emit(Batch.of_rows([(n % 4000,) for n in range(8000)]))
    sizes = replace(Sizes(), ready_rows=100)
    heard: list[list[Any]] = [[]]

    def process(batch: Batch, input_index: int) -> None:
        heard[-1] += batch.key_list()

    reader = Reader({0: IncomingEdge(Form.RECORDS, 0)}, process, lambda: heard.append([]), sizes)
    deque(reader.feed(pa.RecordBatch.from_pylist(shuffled([sender]), SCHEMA)), maxlen=0)
    deque(reader.end(), maxlen=0)
    assert max(map(len, heard)) <= 200 and sum(map(len, heard)) == 8000
    assert len({key for keys in heard for key in set(keys)}) == sum(len(set(keys)) for keys in heard)
