"""Windows that keep records as the columns they came in: when they do, and what becomes rows."""
# long because each way out of columns is tried with the same rig

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from window_columns_rig import GROUPS, MANY, Rig, columns, rows, shown

from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, KeyError_, SnapshotError
from penstock.core.ids import MAX_TIME
from penstock.operators.functions import ReduceFunction
from penstock.operators.window import record_columns
from penstock.operators.window.assigners import TumblingEventTimeWindows
from penstock.operators.window.continuous import ContinuousEventTimeTrigger
from penstock.operators.window.evictors import CountEvictor
from penstock.operators.window.functions import WindowFunction
from penstock.operators.window.record_columns import STORE_NAME, RecordColumns, Records
from penstock.operators.window.window_state import ListContents, ReduceContents
from penstock.operators.window.windows import TimeWindow
from penstock.state.chunks import FrozenChunks
from penstock.state.files import write_blocks
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings


class Later(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


def test_records_stay_columns_without_timers_until_the_window_fires() -> None:
    rig = Rig()
    for turn in range(3):
        rig.send(columns(turn * MANY))
    assert rig.held() == (3 * MANY, 0, 0)
    assert rig.watermark(8) == []
    assert rig.watermark(9) == shown(range(3 * MANY))
    assert rig.held() == (0, 0, 0)


def test_a_batch_of_a_few_records_does_not_open_a_window_in_columns() -> None:
    rig = Rig()
    rig.send(columns(0, MANY - 1))
    rig.send(columns(MANY - 1))
    assert rig.held() == (0, 2, 2)
    assert rig.watermark(9) == shown(range(2 * MANY - 1))


def test_a_batch_must_be_worth_it_for_each_of_its_windows() -> None:
    rig = Rig()
    batch = columns(0, 2 * MANY - 1)
    batch.times = np.where(np.arange(2 * MANY - 1) < MANY, 0, 10)
    rig.send(batch)
    assert rig.held()[0] == 0
    assert rig.watermark(19) == shown(range(MANY)) + shown(range(MANY, 2 * MANY - 1), 10)


def test_a_few_records_join_a_window_that_is_in_columns() -> None:
    rig = Rig()
    rig.send(columns(0))
    rig.send(columns(MANY, 1))
    assert rig.held() == (MANY + 1, 0, 0)
    assert rig.watermark(9) == shown(range(MANY + 1))


@pytest.mark.parametrize(
    "other",
    [
        lambda batch: rows(batch),
        lambda batch: Batch.of_columns(
            batch.columns.append_column("w", pa.array([1] * len(batch))), batch.times, ("k",)
        ),
        lambda batch: Batch.of_columns(
            batch.columns.set_column(0, "k", batch.columns.column("k").cast(pa.float64())),
            batch.times,
            ("k",),
        ),
    ],
    ids=["rows", "another column", "another type of key"],
)
def test_what_does_not_fit_makes_its_window_rows_and_no_other(other: Any) -> None:
    rig = Rig()
    rig.send(columns(0))
    rig.send(columns(0, start=10))
    rig.send(other(columns(MANY)))
    assert rig.held() == (MANY, 2, 2)
    rig.send(columns(2 * MANY))
    assert rig.held() == (MANY, 2, 2)
    assert rig.watermark(9) == shown(range(3 * MANY))
    assert rig.watermark(19) == shown(range(MANY), 10)
    assert rig.held() == (0, 0, 0)


def test_windows_in_columns_and_in_rows_fire_in_order_of_time() -> None:
    rig = Rig()
    for start in (30, 10, 0, 20):
        batch = columns(0, start=start)
        rig.send(rows(batch) if start in (10, 30) else batch)
    assert rig.held() == (2 * MANY, 4, 4)
    fired = [(key, start) for key, start, _ in rig.watermark(MAX_TIME)]
    assert fired == [(key, start) for start in (0, 10, 20, 30) for key in (0, 1)]


def test_late_records_go_aside_in_order() -> None:
    rig = Rig()
    rig.watermark(9)
    batch = columns(0, 2 * MANY)
    batch.times = np.where(np.arange(2 * MANY) % 3 == 0, 5, 15)
    rig.send(batch)
    late = [row.n for row, _ in rig.out.sides["late"]]
    assert late == list(range(0, 2 * MANY, 3))
    assert rig.held()[0] == 2 * MANY - len(late)


def test_a_key_of_several_columns_is_a_tuple_and_keys_fire_in_order_of_arrival() -> None:
    rig, numbers = Rig(), np.arange(MANY)
    texts = pa.array([f"t{n % 3}" for n in numbers])
    batch = pa.record_batch({"a": texts, "b": pa.array(numbers % 2), "n": pa.array(numbers)})
    rig.send(Batch.of_columns(batch, np.zeros(MANY, np.int64), ("a", "b")))
    fired = rig.watermark(9)
    assert [key for key, _, _ in fired] == [(f"t{n % 3}", n % 2) for n in range(6)]
    assert fired[4] == (("t1", 0), 0, list(range(4, MANY, 6)))


def test_a_key_that_is_null_is_refused() -> None:
    batch = columns(0)
    keys = pa.array([None, *batch.columns.column("k").to_pylist()[1:]], pa.int64())
    rig = Rig()
    with pytest.raises(KeyError_) as caught:
        rig.send(Batch.of_columns(batch.columns.set_column(0, "k", keys), batch.times, ("k",)))
    assert caught.value.code == Code.KEY_NULL.value


@pytest.mark.parametrize(
    "kind",
    [
        lambda turn: pa.DictionaryArray.from_arrays(
            pa.array(np.arange(MANY), pa.int8()), pa.array([f"{turn} {n}" for n in range(MANY)])
        ),
        lambda turn: pa.array([str(turn)] * MANY, pa.string_view()),
        lambda turn: pa.RunEndEncodedArray.from_arrays([MANY], [turn]),
        lambda turn: pa.array([[turn]] * MANY, pa.list_(pa.int64(), 1)),
        lambda turn: pa.ListArray.from_arrays(
            list(range(MANY + 1)),
            pa.DictionaryArray.from_arrays(
                pa.array(np.arange(MANY), pa.int8()), pa.array([f"{turn} {n}" for n in range(MANY)])
            ),
        ),
    ],
    ids=["dictionaries of 8 bits", "views of texts", "runs", "lists", "lists of dictionaries"],
)
def test_columns_that_arrow_cannot_join_or_sort_do_no_harm(kind: Any) -> None:
    """They ended the job, at each restart anew: when there were 16 batches, or when the window fired."""
    rig = Rig()
    for turn in range(20):
        rig.send(columns(turn * MANY, v=kind(turn)))
    assert rig.watermark(9) == shown(range(20 * MANY))


def test_a_key_may_name_a_column_twice() -> None:
    rig = Rig()
    rig.send(Batch.of_columns(columns(0).columns, columns(0).times, ("k", "k")))
    assert rig.held()[0] == MANY
    assert rig.watermark(9) == [((key, key), 0, list(range(key, MANY, 2))) for key in (0, 1)]


def test_windows_at_the_end_of_time_are_rows() -> None:
    rig = Rig()
    rig.send(columns(0, start=MAX_TIME - 3))
    assert rig.held()[0] == 0
    assert [numbers for _, _, numbers in rig.watermark(MAX_TIME)] == [
        list(range(0, MANY, 2)),
        list(range(1, MANY, 2)),
    ]


# --- snapshots -------------------------------------------------------------------------------------------


def test_columns_and_rows_of_a_snapshot_stay_what_they_are() -> None:
    rig = Rig()
    rig.send(columns(0))
    rig.send(rows(columns(0, start=10)))
    again = Rig(rig.snapshot())
    assert again.held() == (MANY, 2, 2)
    again.send(columns(MANY))
    again.send(columns(MANY, start=10))
    assert again.held() == (2 * MANY, 2, 2)
    assert again.watermark(19) == shown(range(2 * MANY)) + shown(range(2 * MANY), 10)


def test_windows_of_another_size_fire_at_their_own_end() -> None:
    rig = Rig()
    rig.send(columns(0, start=10))
    again = Rig(rig.snapshot(), assigner=TumblingEventTimeWindows[Any](7, 0))
    again.send(columns(MANY, start=14))
    assert again.held() == (2 * MANY, 0, 0)
    assert again.watermark(18) == []
    assert again.watermark(20) == shown(range(MANY), 10) + shown(range(MANY, 2 * MANY), 14)


def test_a_program_with_another_trigger_reads_the_columns_as_rows() -> None:
    rig = Rig()
    rig.send(columns(0))
    again = Rig(rig.snapshot(), trigger=ContinuousEventTimeTrigger[Any](50))
    assert again.held() == (0, 2, 2)
    again.send(columns(MANY))
    assert again.watermark(9) == shown(range(2 * MANY))


def test_with_state_on_disk_records_are_rows(quick_disk: Path) -> None:
    rig = Rig()
    rig.send(columns(0))
    keyed = KeyedState(RocksBackend(RocksSettings(str(quick_disk)), GROUPS))
    again = Rig(rig.snapshot(), keyed=keyed)
    again.send(columns(MANY))
    assert again.held() == (0, 2, 2)
    assert sorted(again.watermark(9)) == shown(range(2 * MANY))
    keyed.close()


@pytest.mark.parametrize(
    "options",
    [{"how": (ReduceContents(Later()), None)}, {"evictor": CountEvictor[Any, Any](1)}],
    ids=["reduce", "evictor"],
)
def test_a_program_that_cannot_read_the_columns_is_refused(options: dict[str, Any]) -> None:
    rig = Rig()
    rig.send(columns(0))
    with pytest.raises(SnapshotError, match=STORE_NAME) as caught:
        Rig(rig.snapshot(), **options)
    assert caught.value.code == Code.STATE_CHANGED.value


def test_a_snapshot_being_written_is_not_disturbed() -> None:
    rig = Rig()
    rig.send(columns(0))
    frozen = rig.keyed.freeze()
    rig.send(columns(MANY))
    rig.watermark(9)
    data = b"".join(block for block, _ in write_blocks(frozen, GROUPS))
    assert Rig(data).watermark(9) == shown(range(MANY))


def test_records_of_subtasks_with_other_columns_meet_as_rows() -> None:
    """Two subtasks, of which one had been given a column more, become one."""
    plain, wide = Rig(), Rig()
    plain.send(
        Batch.of_columns(columns(0, 2 * MANY).columns.slice(0, MANY), np.zeros(MANY, np.int64), ("k",))
    )
    other = columns(1000, MANY, w=np.zeros(MANY))
    wide.send(Batch.of_columns(other.columns.set_column(0, "k", pa.array([7] * MANY)), other.times, ("k",)))
    again = Rig(plain.snapshot() + wide.snapshot())
    assert again.held() == (0, 3, 3)
    assert again.watermark(9) == [*shown(range(MANY)), (7, 0, list(range(1000, 1000 + MANY)))]


def test_a_block_that_does_not_name_its_key_is_refused() -> None:
    rig = Rig()
    rig.send(columns(0))
    (frozen,) = (part for part in rig.keyed.freeze() if isinstance(part, FrozenChunks))
    (batch,) = frozen.record_batches()
    store = RecordColumns(GROUPS)
    store.restore([batch])
    assert store.windows() == [TimeWindow(0, 10)] and list(store.groups(batch)) == batch.column(0).to_pylist()
    for spoilt in (batch.replace_schema_metadata(None), batch.select(batch.schema.names[:3])):
        with pytest.raises(CorruptSnapshotError, match="key"):
            RecordColumns(GROUPS).restore([spoilt])


# --- lateness --------------------------------------------------------------------------------------------


def test_columns_stay_until_no_late_record_can_come() -> None:
    rig = Rig(allowed_lateness_ms=20)
    rig.send(columns(0))
    assert rig.watermark(9) == shown(range(MANY))
    assert rig.held() == (MANY, 0, 0)
    assert rig.watermark(28) == []
    assert rig.held() == (MANY, 0, 0)
    assert rig.watermark(29) == []
    assert rig.held() == (0, 0, 0)


def test_a_late_record_makes_a_window_rows_and_shows_all_that_its_key_has() -> None:
    rig = Rig(allowed_lateness_ms=20)
    rig.send(columns(0))
    rig.watermark(9)
    late = columns(MANY, 2 * MANY)
    late.times = np.where(np.arange(2 * MANY) == 4, 9, 10)
    rig.send(late)
    assert [value for value, _ in rig.out.main] == [(0, 0, [*range(0, MANY, 2), MANY + 4])]
    assert rig.held() == (2 * MANY - 1, 2, 2)
    rig.out.main.clear()
    assert rig.watermark(MAX_TIME) == shown([n for n in range(MANY, 3 * MANY) if n != MANY + 4], 10)
    assert rig.held() == (0, 0, 0)


def test_a_window_that_has_fired_does_not_fire_again_behind_a_restore() -> None:
    rig = Rig(allowed_lateness_ms=20)
    rig.send(columns(0))
    rig.watermark(9)
    again = Rig(rig.snapshot(), allowed_lateness_ms=20)
    assert again.held() == (MANY, 0, 0)
    assert again.watermark(9) == [] and again.watermark(28) == []
    assert again.held() == (MANY, 0, 0)
    assert again.watermark(29) == [] and again.held() == (0, 0, 0)


def test_a_record_that_comes_to_a_fired_window_before_the_first_watermark_shows_its_key() -> None:
    rig = Rig(allowed_lateness_ms=20)
    rig.send(columns(0))
    rig.watermark(9)
    again = Rig(rig.snapshot(), allowed_lateness_ms=20)
    again.send(columns(MANY, 1))
    assert again.watermark(9) == [(0, 0, [*range(0, MANY, 2), MANY])]
    assert again.watermark(29) == [] and again.held() == (0, 0, 0)


def test_without_lateness_fired_windows_of_a_snapshot_go_unseen() -> None:
    rig = Rig(allowed_lateness_ms=20)
    rig.send(columns(0))
    rig.send(columns(0, start=10))
    rig.watermark(9)
    for batch in ([], [rows(columns(MANY, 1))]):
        again = Rig(rig.snapshot())
        for late in batch:
            again.send(late)
        assert again.watermark(10) == []
        assert again.held() == (MANY, 0, 0)
        assert again.watermark(19) == shown(range(MANY), 10)
        assert again.held() == (0, 0, 0)


# --- memory and pace -------------------------------------------------------------------------------------


def test_a_piece_of_a_large_batch_does_not_keep_the_batch() -> None:
    large = columns(0, 100_000)
    records = Records(large.columns.schema, ("k",))
    for start in range(0, 100_000, 10_000):
        records.append(large.columns.slice(start, 10))
    assert sum(batch.get_total_buffer_size() for batch in records.batches()) < 10_000
    assert sum(len(found) for _, found in records.groups()) == 100


def test_many_batches_become_few() -> None:
    one = columns(0, 1).columns
    records = Records(one.schema, ("k",))
    for _ in range(1000):
        records.append(one)
    assert len(records.batches()) < 50
    assert [(key, len(found)) for key, found in records.groups()] == [(0, 1000)]


def test_what_is_too_much_for_one_batch_is_read_from_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow addresses 2 GB in a column of texts: a window that held more ended the job when it fired."""
    monkeypatch.setattr(record_columns, "_MOST_BYTES", 3000)
    one = columns(0, 1).columns
    records = Records(one.schema, ("k",))
    for start in range(0, 3000, 100):
        records.append(columns(start, 100).columns)
    assert max(batch.nbytes for batch in records._sorted()[0].batches) <= 3000
    assert [(key, [row.n for row in found]) for key, found in records.groups()] == [
        (key, list(range(key, 3000, 2))) for key in (0, 1)
    ]
    assert records.every_key() == [0, 1]


def test_a_firing_waits_where_the_outputs_are_full() -> None:
    rig = Rig()
    batch = columns(0, 500)
    keys = batch.columns.set_column(0, "k", pa.array(np.arange(500)))
    rig.send(Batch.of_columns(keys, batch.times, ("k",)))
    rig.ctx.blocked = lambda: True
    found, resumed = rig.watermark(9), 0
    assert len(found) < 500 and rig.out.watermarks == []
    while rig.operator.suspended is not None:
        rig.operator.resume()
        resumed += 1
    assert resumed > 10
    assert [value[0] for value in found] + [value[0] for value, _ in rig.out.main] == list(range(500))
    assert rig.out.watermarks == [9]


def test_batch_mode_begins_anew_with_other_keys() -> None:
    rig = Rig()
    rig.send(rows(columns(0)))
    assert rig.watermark(MAX_TIME) == shown(range(MANY))
    rig.operator.forget_keys()
    rig.send(columns(0))
    assert rig.held() == (MANY, 0, 0)
    assert rig.watermark(MAX_TIME) == shown(range(MANY))


def test_dictionaries_of_many_batches_stay_columns() -> None:
    """Those that number their values by a byte cannot be united, nor those with a null among these."""

    class Seen(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield from (record.d for record in inputs)

    def some(turn: int) -> Batch:
        values = pa.array([*(f"{turn}-{place}" for place in range(MANY - 1)), None])
        return columns(
            turn * MANY, d=pa.DictionaryArray.from_arrays(pa.array(range(MANY), pa.int8()), values)
        )

    rig = Rig(how=(ListContents(), Seen()))
    sent = [some(turn) for turn in range(40)]
    for batch in sent[:20]:
        rig.send(batch)
    again = Rig(rig.snapshot(), how=(ListContents(), Seen()))
    for batch in sent[20:]:
        again.send(batch)
    assert again.held() == (40 * MANY, 0, 0)
    found = again.watermark(9)
    values = [value for batch in sent for value in batch.columns.column("d").to_pylist()]
    assert found == values[::2] + values[1::2]
