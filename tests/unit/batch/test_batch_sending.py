"""What senders do with records that are large, strange, or cannot be sent at all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.batch import spill
from penstock.batch.merge import Merge
from penstock.batch.outputs import Outbox, OutgoingEdge, edge_output
from penstock.batch.pieces import Piece, body_of, piece_of
from penstock.batch.sizes import Sizes
from penstock.batch.wire import SORTED_BY, batch_of_frame
from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, PenstockError, TypeMismatchError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.exchange.partition import Broadcast, Hash, Partitioning, Rebalance
from penstock.graph.bounded import Form
from penstock.testing.local import local_cluster

BY_KEY = Hash(selector=lambda row: row[0])
BY_COLUMN = Hash(columns=("k",))


def sent(
    form: Form, by: Partitioning, batches: list[Batch], sizes: Sizes | None = None
) -> list[dict[str, Any]]:
    """The rows that one sender makes for three receivers."""
    outbox = Outbox()
    output = edge_output(OutgoingEdge(0, form, by, 0, 3, 16, "step 'total'"), 0, 1, outbox, sizes or Sizes())
    for batch in batches:
        output.emit(batch)
    output.flush()
    rows = pa.Table.from_batches(list(outbox.take()))
    return list(rows.sort_by([(name, "ascending") for name in SORTED_BY]).to_pylist())


# --- what cannot be sent ------------------------------------------------------------------------


class Connection:
    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("form", "by"),
    [
        (Form.RECORDS, BY_KEY),
        (Form.GROUPS, BY_KEY),
        (Form.FRAMES, Rebalance()),
        (Form.FIRST, Broadcast()),
    ],
)
def test_a_record_that_cannot_be_pickled_is_named(form: Form, by: Partitioning) -> None:
    with pytest.raises(TypeMismatchError) as raised:
        sent(form, by, [Batch.of_rows([(1, None), (2, {"c": Connection()})])])
    text = str(raised.value)
    assert raised.value.code == Code.RECORD_NOT_PICKLABLE
    assert "on the way to step 'total': a record cannot be sent to another slot" in text
    assert "field 'lock' of a Connection is a lock" in text and "open()" in text


def test_a_job_whose_records_cannot_be_pickled_says_so() -> None:
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        made = env.from_collection([1, 2]).map(lambda n: (n, Connection()))
        totals = made.key_by(lambda pair: pair[0]).reduce(lambda left, right: left)
        with pytest.raises(PenstockError, match="a record cannot be sent to another slot") as raised:
            list(totals.execute_and_collect())
    assert "UserCodeError" not in type(raised.value).__name__ and "'Reduce'" in str(raised.value)


# --- large records ------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "by"), [(Form.FRAMES, Rebalance()), (Form.FIRST, Broadcast())])
@pytest.mark.parametrize("at_once", [1, 50, 400])
def test_frames_of_large_records_are_of_few(form: Form, by: Partitioning, at_once: int) -> None:
    """A row of a shuffle, and a message to it, hold two gigabytes at most; memory may hold less."""
    rows = [(n, "x" * 100_000) for n in range(400)]
    batches = [Batch.of_rows(rows[start : start + at_once]) for start in range(0, 400, at_once)]
    found = sent(form, by, batches)
    assert max(len(row["body"]) for row in found) < 9 << 20
    got = sorted(n for row in found for n, _ in batch_of_frame(row["body"]).to_rows())
    assert got == sorted(list(range(400)) * (3 if form is Form.FIRST else 1))


def test_what_is_sent_at_once_leaves_a_little_at_a_time() -> None:
    """Both ends copy what is handed over, and Arrow counts the bytes of one column in 31 bits."""
    outbox = Outbox()
    output = edge_output(OutgoingEdge(0, Form.RECORDS, BY_KEY, 0, 1, 16), 0, 1, outbox, Sizes())
    output.emit(Batch.of_rows([(n, "x" * 1000) for n in range(15_000)] + [(-1, "x" * (9 << 20))]))
    output.flush()
    handed = [[len(body) for body in batch.column("body").to_pylist()] for batch in outbox.take()]
    assert len(handed) > 5 and all(len(some) == 1 or sum(some) <= 4 << 20 for some in handed)
    assert max(map(sum, handed)) > 9 << 20 and not list(outbox.take())


def test_frames_that_wait_are_bounded_over_all_receivers() -> None:
    outbox = Outbox()
    edge = OutgoingEdge(0, Form.FRAMES, Rebalance(), 0, 100, 128)
    output = edge_output(edge, 0, 1, outbox, Sizes())
    output.emit(Batch.of_rows([(n, "x" * 100_000) for n in range(400)]))
    assert sum(len(row) for batch in outbox.take() for row in batch.column("body").to_pylist()) > 30 << 20


def test_groups_of_large_records_do_not_wait_for_more() -> None:
    outbox = Outbox()
    output = edge_output(OutgoingEdge(0, Form.GROUPS, BY_COLUMN, 0, 1, 4), 0, 1, outbox, Sizes())
    blob = "x" * (1 << 20)
    for n in range(70):
        output.emit(Batch.of_columns(pa.record_batch({"k": [n], "v": [blob]})))
    assert outbox.is_full()


# --- columns that refer to something ------------------------------------------------------------

TEXTS = [f"{n} a text that is longer than what a view holds itself" for n in range(200)]
REFERRING: dict[str, Any] = {
    "dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "view": lambda: pa.array(TEXTS, pa.string_view()),
    "bytes": lambda: pa.array([text.encode() for text in TEXTS], pa.binary_view()),
    "lists": lambda: pa.array([[text] for text in TEXTS], pa.list_view(pa.string())),
    "inside": lambda: pa.array(
        [{"a": [text]} for text in TEXTS], pa.struct([("a", pa.list_(pa.string_view()))])
    ),
}


@pytest.mark.parametrize("kind", sorted(REFERRING))
def test_what_refers_to_all_of_a_column_is_not_sent_with_each_piece(kind: str) -> None:
    values = REFERRING[kind]()
    batch = Batch.of_columns(pa.record_batch({"k": pa.array(range(200)), "v": values}))
    found = sent(Form.RECORDS, BY_COLUMN, [batch], replace(Sizes(), piece_rows=1, pieces=1000))
    assert sum(len(row["body"]) for row in found) < 200_000
    got = [record for row in found for record in piece_of(row["body"], 0, 0).batch.to_rows()]
    assert {record.k: record.v for record in got} == dict(enumerate(values.to_pylist()))


def categories() -> Iterator[Batch]:
    """Each batch has a dictionary of its own that its type can count, and all together one that it cannot."""
    small = pa.dictionary(pa.int8(), pa.string())
    for start in range(0, 400, 100):
        values = pa.array([f"c{n}" for n in range(start, start + 100)]).dictionary_encode().cast(small)
        yield Batch.of_columns(pa.record_batch({"k": pa.array(range(start, start + 100)), "v": values}))


@pytest.mark.parametrize(
    ("form", "by"), [(Form.RECORDS, BY_COLUMN), (Form.GROUPS, BY_COLUMN), (Form.FRAMES, Rebalance())]
)
def test_dictionaries_together_may_have_more_entries_than_one_can(form: Form, by: Partitioning) -> None:
    found = sent(form, by, list(categories()))
    if form is Form.RECORDS:
        batches = [piece_of(row["body"], 0, 0).batch for row in found]
    else:
        batches = [batch_of_frame(row["body"]) for row in found]
    got = {record.k: record.v for batch in batches for record in batch.to_rows()}
    assert got == {n: f"c{n}" for n in range(400)}


# --- files --------------------------------------------------------------------------------------


def piece(start: int) -> Piece:
    parts = np.arange(start, start + 100, dtype=np.int64)
    batch = Batch.of_rows([("x" * 1000, n) for n in range(100)])
    return piece_of(body_of(parts, None, batch), 0, start * 1000)


def test_a_full_disk_is_named_and_the_file_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def full() -> Any:
        opened.append(open("/dev/full", "w+b"))  # noqa: SIM115
        return opened[-1]

    monkeypatch.setattr(spill, "scratch_file", full)
    merging = Merge(replace(Sizes(), ready_rows=1, ready_bytes=1, open_bytes=10_000))
    with pytest.raises(ConfigError, match="No space left on device.*spark.local.dir"):
        for start in range(5):
            list(merging.add(piece(start)))
    with contextlib.suppress(OSError):
        merging.close()
    assert opened[0].closed


def test_a_place_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(nowhere / "spark"))
    with pytest.raises(ConfigError, match=f"{nowhere}/spark cannot hold .*spark.local.dir"):
        spill.Spill(1000)
