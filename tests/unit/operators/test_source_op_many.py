"""Splits by the thousand: what was read is not stored, what waits is packed once, nothing is read twice."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_harness import opened
from test_source_op_reading import NONE, ListSource, drain, splits

from penstock.connectors.source import Split, SplitsFinished
from penstock.core.packed import Names, pack, unpack
from penstock.operators import source_splits
from penstock.operators.source_operator import SourceOperator
from penstock.operators.source_splits import claim
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore


def stored(op):
    """What the last barrier stored, as a snapshot would give it back."""
    return pickle.loads(pickle.dumps(op._state.get()))


def store_of(*items):
    return OperatorStateStore({"splits": ListSnapshot(ListMode.UNION, tuple(items))})


class Waiting(ListSource):
    """Its enumerator waits for the end of splits whose names begin with an "h"."""

    reports_finished = True

    def awaits_end(self, split):
        return split.id.startswith("h")


def waiting(store=None, told=None, subtask=0, parallelism=1):
    tell = (told if told is not None else []).append
    op = SourceOperator(Waiting(), NONE)
    return opened(op, store=store, subtask=subtask, parallelism=parallelism, to_driver=tell, generation=1)


def test_ten_thousand_splits_that_were_read_leave_nothing_in_the_snapshot():
    op, _, out = opened(SourceOperator(ListSource(in_order=True), NONE))
    op.add_splits([Split(f"s{n}", [n]) for n in range(10_000)])
    for _ in range(10_000):
        op.poll(1)
    op.prepare_barrier(1)
    assert len(out.rows) == 10_000
    assert len(op._state.get()) <= 1 and len(op._splits) <= 1, "at most the one that has yet to say it ended"
    drain(op)
    op.prepare_barrier(2)
    assert op._state.get() == [] and not op._splits


def test_ten_thousand_splits_that_wait_are_packed_once():
    op, _, _ = opened(SourceOperator(ListSource(in_order=True), NONE))
    op.add_splits([Split(f"s{n:05}", [n]) for n in range(10_000)])
    op.prepare_barrier(1)
    first = op._state.get()
    assert len(first) < 2 * source_splits.LOT + 10_000 / source_splits.LOT
    for _ in range(3):
        op.poll(1)
    op.prepare_barrier(2)
    lots = {id(item[1]) for item in first if item[0] is None}
    again = {id(item[1]) for item in op._state.get() if item[0] is None}
    assert len(lots) >= 38 and again <= lots, "not packed again"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), min_size=1, max_size=4))
def test_every_record_once_across_any_rescales_of_packed_lots(count, attempts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_splits, "LOT", 3)
        seen, items = [], None
        for parallelism, steps in [*attempts, (2, 200)]:
            union = []
            for subtask in range(parallelism):
                op, _, out = opened(
                    SourceOperator(ListSource(in_order=True), NONE),
                    subtask=subtask,
                    parallelism=parallelism,
                    store=None if items is None else store_of(*items),
                )
                if items is None:
                    op.add_splits([Split(f"s{n}", [n, -n]) for n in range(count)][subtask::parallelism])
                for _ in range(steps):
                    op.poll(1)
                op.prepare_barrier(1)
                seen += out.rows
                union += stored(op)
            items = union
    assert sorted(seen) == sorted(sign * n for n in range(count) for sign in (1, -1)) and items == []


def test_splits_that_an_older_snapshot_says_were_read_are_not_read_again():
    old = [(Split("a"), 3, True, 0, 1), (Split("b", [1, 2]), 1, False, 0, 1)]
    op, _, out = opened(SourceOperator(ListSource(), NONE), store=store_of(*old))
    op.add_splits(splits(a=[7, 8, 9], b=[1, 2], c=[5]))
    drain(op)
    assert sorted(out.rows) == [2, 5]
    op.prepare_barrier(1)
    assert op._state.get() == []


def test_splits_whose_end_is_waited_for_are_told_again_after_a_restore():
    told = []
    op, _, _ = waiting(told=told)
    op.add_splits(splits(h1=[1], h2=[2]))
    drain(op)
    assert told == [SplitsFinished(1, ("h1",)), SplitsFinished(1, ("h2",))]
    op.prepare_barrier(1)
    kept = stored(op)
    assert len(kept) == 1, "packed"
    for parallelism in (1, 3):
        again = []
        for subtask in range(parallelism):
            waiting(store_of(*kept), again, subtask, parallelism)
        assert again == [SplitsFinished(1, ("h1", "h2"))]


def test_when_one_comes_that_is_not_waited_for_the_others_are_forgotten():
    told = []
    op, _, out = waiting(told=told)
    op.add_splits(splits(h1=[1]))
    drain(op)
    op.add_splits(splits(live=[2]))
    op.prepare_barrier(1)
    assert [item[0].id for item in op._state.get()] == ["live"]
    drain(op)
    op.prepare_barrier(2)
    assert op._state.get() == [] and told == [SplitsFinished(1, ("h1",))] and out.rows == [1, 2]


def test_claim_of_old_and_new_forms_together():
    new = (
        None,
        pack([(Split("x"), None, False, 1, 2), (Split("y"), 4, False, 1, 2, "learned")]),
        False,
        1,
        2,
    )
    done = (None, pack(["p", "q"]), True, 0, 2)
    old = (Split("a"), 3, False, 0, 2)
    found = [
        (a.split.id, a.position, a.done, a.learned) for n in (0, 1) for a in claim([old, new, done], n, 2)
    ]
    assert found == [
        ("a", 3, False, None),
        ("p", None, True, None),
        ("q", None, True, None),
        ("x", None, False, None),
        ("y", 4, False, "learned"),
    ]
    moved = [a.split.id for n in range(3) for a in claim([old, new, done], n, 3)]
    assert sorted(moved) == ["a", "p", "q", "x", "y"]


@given(st.lists(st.text(), max_size=50), st.lists(st.text(), max_size=50))
def test_names_are_a_set_that_remembers(first, second):
    names = Names(first)
    assert [name for name in second if names.add(name)] == list(
        dict.fromkeys(n for n in second if n not in first)
    )
    restored = Names.restored(pickle.loads(pickle.dumps(names.packed())))
    assert list(restored) == list(names) and set(restored) == {*first, *second}
    assert set(Names.restored(sorted({*first, *second}))) == set(names), "as older snapshots have them"


def test_many_names_are_packed_once_and_small():
    names = Names(f"/landing/zone/2026/11/16/part-{n:06}-of-the-day.parquet" for n in range(100_000))
    packed = names.packed().lots
    assert len(packed) == 25 and sum(map(len, packed)) < 1_000_000
    names.add("one more")
    again = names.packed().lots
    assert all(one is other for one, other in zip(packed[:24], again[:24], strict=True))
    assert sum(len(unpack(lot)) for lot in again) == 100_001
