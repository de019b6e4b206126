"""Results that change, over the age of a job: what is forgotten and what is found again."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from penstock.core.changes import CHANGE, with_change
from penstock.core.codes import row_hashes
from penstock.core.errors import SnapshotError
from penstock.operators.changes import group_state, rank_state, value_sets
from penstock.operators.changes.accumulators import Aggregated
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.rank_state import Ranking
from penstock.operators.changes.top_rows import TopRowsOperator
from penstock.state import interning
from tests.changes_rig import Rig

TEXTS = pa.schema({"k": pa.int64(), "s": pa.string(), "t": pa.string(), "c": pa.bool_()})


def rig_of(schema, *aggregates, before=False):
    make = partial(GroupAggOperator, hashed_schema(schema), ["k"], aggregates, before)
    return Rig(make, (schema, ["k"]), parallelism=1)


def batch(rig, schema, *found):
    rows = [dict(zip(schema.names, row, strict=True)) for row in found]
    rig.batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    return rig.take()


def test_old_results_are_told_as_they_were_when_texts_are_numbered_anew(monkeypatch):
    monkeypatch.setattr(interning, "_FEW", 3)
    rig = rig_of(TEXTS, Aggregated("max", "m", "MAX(s)", "s"), before=True)
    batch(rig, TEXTS, (1, "a", "", True), (1, "b", "", True), (1, "c", "", True))
    found = batch(rig, TEXTS, (1, "d", "", True))
    assert [(row["m"], row[CHANGE]) for row in found] == [("c", 1), ("d", 2)]


def test_values_that_no_row_counts_are_not_kept(monkeypatch):
    monkeypatch.setattr(interning, "_FEW", 8)
    rig = rig_of(TEXTS, Aggregated("count", "n", "COUNT(DISTINCT s)", "s", "c", distinct=True))
    for number in range(100):
        batch(rig, TEXTS, (1, f"s{number}", "", number % 50 == 0))
    (sets,) = rig.operators[0]._state._sets.values()
    assert len(sets.coder._values) <= 10
    assert batch(rig, TEXTS, (1, "another", "", True))[-1]["n"] == 3


def test_keys_whose_rows_come_and_go_within_a_batch_are_forgotten(monkeypatch):
    monkeypatch.setattr(rank_state, "_WORTH_FORGETTING", 16)
    schema = with_change(pa.schema({"k": pa.int64(), "v": pa.int64()}))
    make = partial(TopRowsOperator, hashed_schema(schema), ["k"], Ranking(1, (("v", False),)), None, True)
    rig = Rig(make, (schema, ["k"]), parallelism=1)
    batch(rig, schema, (-1, 5, 0))
    for number in range(200):
        assert batch(rig, schema, (number, 1, 0), (number, 1, 3)) == []
    assert len(rig.operators[0]._state.keys) <= 34
    assert batch(rig, schema, (-1, 5, 3)) == [{"k": -1, "v": 5, CHANGE: 3}]


def test_groups_and_values_whose_rows_went_are_forgotten(monkeypatch):
    monkeypatch.setattr(group_state, "_WORTH_FORGETTING", 16)
    monkeypatch.setattr(value_sets, "_WORTH_FORGETTING", 16)
    schema = with_change(pa.schema({"k": pa.int64(), "v": pa.int64()}))
    rig = rig_of(schema, Aggregated("max", "m", "MAX(v)", "v"))
    batch(rig, schema, (-1, 5, 0))
    for number in range(100):
        batch(rig, schema, (number, 1, 0), (-1, number, 0))
        batch(rig, schema, (number, 1, 3), (-1, number, 3))
        if number == 50:
            rig.rescale(1)
    state = rig.operators[0]._state
    assert len(state.keys) <= 40
    assert all(len(sets.codes(0)) <= 40 for sets in state._sets.values())
    assert batch(rig, schema, (-1, 3, 0), (-1, 5, 3))[-1]["m"] == 3


NESTED = pa.schema(
    {
        "k": pa.int64(),
        "l": pa.list_(pa.int64()),
        "o": pa.struct({"a": pa.float64(), "b": pa.list_(pa.string())}),
    }
)


def test_rows_with_lists_and_structs_are_taken_back():
    schema = with_change(NESTED)
    make = partial(TopRowsOperator, hashed_schema(schema), ["k"], Ranking(2, (("k", False),)), None, True)
    rig = Rig(make, (schema, ["k"]), parallelism=1)
    one, other = (1, [1, None], {"a": -0.0, "b": ["x"]}), (1, [1], None)
    batch(rig, schema, (*one, 0), (*other, 0))
    found = batch(rig, schema, (1, [1, None], {"a": 0.0, "b": ["x"]}, 3))
    assert [(row["l"], row[CHANGE]) for row in found] == [([1, None], 3)]
    assert [row["l"] for row in batch(rig, schema, (*other, 3))] == [[1]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.int64()), [[], None, [1], [1, 2], [None], [2, 1]]),
        (pa.large_list(pa.string()), [["ab"], ["a", "b"], [""], []]),
        (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1}, {"b": "1"}, None, {}]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 2)], [], None]),
    ],
    ids=str,
)
def test_hashes_of_nested_values_are_those_of_equal_ones_only(kind, values):
    there = [value for value in values]
    hashes = row_hashes([pa.array([*there, *reversed(there)], kind)]).tolist()
    assert hashes == [*hashes[: len(there)], *reversed(hashes[: len(there)])]
    assert len(set(hashes)) == len({repr(value) for value in pa.array(there, kind).to_pylist()})
    cut = pa.array([*there, *reversed(there)], kind).slice(1)
    assert row_hashes([cut]).tolist() == hashes[1:]


def distinct(name, column, text):
    return Aggregated("count", name, f"COUNT(DISTINCT {text})", column, distinct=True)


def resumed(before, after):
    """A rig with other aggregates that goes on where one was."""
    rig = rig_of(TEXTS, *before)
    batch(rig, TEXTS, (1, "a", "x", True), (1, "b", "x", True), (1, "c", "x", True))
    rig.make = partial(GroupAggOperator, hashed_schema(TEXTS), ["k"], after, False)
    rig.rescale(1)
    return rig


def test_distinct_values_are_found_again_wherever_their_aggregate_stands():
    one, other = distinct("a", "s", "s"), distinct("b", "t", "t")
    (row,) = batch(resumed([one, other], [other, one]), TEXTS, (1, "d", "x", True))
    assert (row["a"], row["b"]) == (4, 1)
    (row,) = batch(resumed([one, other], [other]), TEXTS, (1, "d", "y", True))
    assert row["b"] == 2


def test_a_count_of_distinct_values_cannot_be_added():
    one, other = distinct("a", "s", "s"), distinct("b", "t", "t")
    with pytest.raises(SnapshotError, match=r"no 'COUNT\(DISTINCT t\)"):
        resumed([one], [one, other])


def test_aggregates_whose_texts_are_equal_are_kept_apart():
    one, other = Aggregated("max", "a", "MAX(f(s))", "s"), Aggregated("max", "b", "MAX(f(s))", "t")
    (row,) = batch(resumed([one, other], [one, other]), TEXTS, (1, "d", "", True))
    assert (row["a"], row["b"]) == ("d", "x")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None, "a", "", "a"]),
        pa.array(["x", "a", "b", None, "a"]).slice(1),
        pa.array([b"ab", None, b"ab", b"cd"], pa.binary(2)),
        pa.array([Decimal("1.10"), Decimal("1.1"), None, Decimal("2.00")], pa.decimal128(5, 2)),
        pa.nulls(3, pa.string()),
        pa.nulls(3),
    ],
    ids=str,
)
def test_a_value_has_the_same_hash_alone_as_among_others_like_it(column: pa.Array) -> None:
    alone = [int(row_hashes([column.slice(place, 1)])[0]) for place in range(len(column))]
    assert row_hashes([column]).tolist() == alone
    assert len(set(alone)) == len(set(column.to_pylist()))
