"""Results that change against relations: random rows that come and go, batches, nulls, NaN, rescaling.

What is left when all changes are made must be what DuckDB says of the rows that are left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.changes import CHANGE, with_change
from penstock.dataframe.grouping import GroupPlan
from penstock.expressions.face import col, count
from penstock.expressions.nodes import Column
from penstock.expressions.program import Projection
from penstock.operators.changes import group_state, last_rows, rank_state, regular_join, value_sets
from penstock.operators.changes.first_rows import FirstRowsOperator
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.last_rows import LastRowsOperator
from penstock.operators.changes.rank_state import Ranking
from penstock.operators.changes.regular_join import KINDS, RegularJoin, RegularJoinOperator
from penstock.operators.changes.top_rows import TopRowsOperator
from penstock.state import buckets, interning, row_log
from tests.changes_rig import Rig
from tests.duck import connected

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "k": pa.string(),
        "f": pa.float64(),
        "v": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "s": pa.string(),
        "p": pa.decimal128(24, 3),
    }
)
NAN = float("nan")
PRICES = [None, *map(Decimal, ("0.000", "1.005", "-2.500", "999999999999999999999.999", "-4294967296.001"))]
EXAMPLES = settings(max_examples=40, deadline=None)
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0.0, -0.0, 1.5, NAN, None]),
    st.sampled_from([None, -3, 0, 1, 2, 3]),
    st.sampled_from([None, NAN, 0.25, -7.5, math.inf]),
    st.sampled_from([None, 0.25, -7.5, 3.0]),
    st.sampled_from([None, "", "p", "q", "é"]),
    st.sampled_from(PRICES),
)

TIDYING = [
    (interning, "_FEW"),
    (buckets, "_WORTH_TIDYING"),
    (row_log, "_WORTH_TIDYING"),
    (group_state, "_WORTH_FORGETTING"),
    (last_rows, "_WORTH_FORGETTING"),
    (rank_state, "_WORTH_FORGETTING"),
    (value_sets, "_WORTH_FORGETTING"),
    (regular_join, "_WORTH_FORGETTING"),
]
"""How much must lie about before somebody tidies up."""


@pytest.fixture(scope="module", params=[None, 1], ids=["untidy", "tidy"], autouse=True)
def tidying(request: pytest.FixtureRequest) -> Iterator[None]:
    """As it is, and with state that is tidied up all the time."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in TIDYING if request.param else ():
            patched.setattr(module, name, request.param)
        if request.param:
            patched.setattr(row_log, "_FAN_IN", 2)
        yield


@st.composite
def histories(draw: Any, deletes: bool) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Steps (batches of changes, or a new parallelism), and the rows that are left."""
    steps: list[Any] = []
    alive: list[tuple[Any, ...]] = []
    number = 0
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        for _ in range(draw(st.integers(0, 8))):
            if deletes and alive and draw(st.integers(0, 2)) == 0:
                gone = alive.pop(draw(st.integers(0, len(alive) - 1)))
                batch.append((gone, draw(st.sampled_from([1, 3]))))
            else:
                number += 0 if deletes and draw(st.booleans()) else 1  # some rows are equal
                alive.append((number, *draw(ROW)))
                batch.append((alive[-1], draw(st.sampled_from([0, 2])) if deletes else 0))
        steps.append(batch)
        if draw(st.integers(0, 2)) == 0:
            steps.append(draw(st.integers(1, 3)))
    return steps, alive


def columns(batch: list[Any], deletes: bool) -> pa.RecordBatch:
    rows = [dict(zip(SCHEMA.names, row, strict=True)) | {CHANGE: kind} for row, kind in batch]
    schema = with_change(SCHEMA) if deletes else SCHEMA
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def asked(query: str, **tables: list[tuple[Any, ...]]) -> list[Any]:
    with connected() as db:
        for name, rows in tables.items():
            found = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
            db.register(name, pa.Table.from_pylist(found, schema=SCHEMA))
        return plain(db.execute(query).fetchall())


def plain(rows: list[Any]) -> list[Any]:
    """In an order, NaN and the zeros being one value each."""

    def one(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value + 0.0
        if isinstance(value, dict):  # a sum and what to divide it by: our means of decimals are decimals
            total, count = value.values()
            return None if total is None else (total / count).quantize(Decimal("1e-6"), ROUND_HALF_UP)
        return value

    return sorted((tuple(one(value) for value in row) for row in rows), key=repr)


AGGREGATES = {
    "count(*)": count(),
    "count(v)": col("v").count,
    "sum(v)": col("v").sum,
    "avg(v)": col("v").avg,
    "sum(y)": col("y").sum,
    "avg(y)": col("y").avg,
    "min(x)": col("x").min,
    "max(x)": col("x").max,
    "min(s)": col("s").min,
    "max(s)": col("s").max,
    "count(distinct v)": col("v").count.distinct,
    "count(distinct s)": col("s").count.distinct,
    "count(distinct s) filter (where v > 1)": col("s").count.distinct.filter(col("v") > 1),
    "count(distinct s) filter (where v < 1)": col("s").count.distinct.filter(col("v") < 1),
    "max(v) filter (where x > 0)": col("v").max.filter(col("x") > 0),
    "count(*) filter (where v > 1)": count().filter(col("v") > 1),
    "sum(v) filter (where v > 1)": col("v").sum.filter(col("v") > 1),
    "sum(p)": col("p").sum,
    "{'sum': sum(p), 'by': count(p)}": col("p").avg,
    "min(p)": col("p").min,
    "max(p) filter (where v > 0)": col("p").max.filter(col("v") > 0),
    "count(distinct p)": col("p").count.distinct,
    "sum(distinct p)": col("p").sum.distinct,
    "sum(distinct p) filter (where v > 1)": col("p").sum.distinct.filter(col("v") > 1),
    "{'sum': sum(distinct p), 'by': count(distinct p)}": col("p").avg.distinct,
    "sum(distinct v)": col("v").sum.distinct,
    "avg(distinct v)": col("v").avg.distinct,
    "sum(distinct y) filter (where x > 0)": col("y").sum.distinct.filter(col("x") > 0),
}


def grouped(history: Any, deletes: bool, keys: list[str], before: bool, batch: bool = False) -> list[Any]:
    steps, _ = history
    schema = with_change(SCHEMA) if deletes else SCHEMA
    named = [aggregate.alias(f"r{place}") for place, aggregate in enumerate(AGGREGATES.values())]
    plan = GroupPlan(SCHEMA, [col(key) for key in keys], named)
    inputs = plan.inputs | ({CHANGE: Column(CHANGE)} if deletes else {})
    prepared = Projection(schema, inputs)
    make = partial(GroupAggOperator, hashed_schema(prepared.schema), plan.key_names, plan.aggregates, before)
    rig = Rig(make, (prepared.schema, plan.key_names), batch=batch)
    for step in steps:
        if isinstance(step, int):
            rig.rescale(step)
        elif step:
            rig.batch(prepared.apply(columns(step, deletes)))
    if batch:
        rig.watermark(2**63 - 1)
    rows = rig.final(None if before else tuple(keys))
    order = [*keys, *(node.name for node in plan.results.values() if isinstance(node, Column))]
    return plain([tuple(row[name] for name in order) for row in rows])


@pytest.mark.parametrize("deletes", [False, True], ids=["appends", "changes"])
@pytest.mark.parametrize("before", [False, True], ids=["upserts", "retracts"])
@given(data=st.data())
@EXAMPLES
def test_groups(data: Any, deletes: bool, before: bool) -> None:
    history = data.draw(histories(deletes))
    keys = data.draw(st.sampled_from([["k"], ["f"], ["k", "f"]]))
    names = ", ".join(keys)
    wanted = asked(f"SELECT {names}, {', '.join(AGGREGATES)} FROM t GROUP BY {names}", t=history[1])
    assert grouped(history, deletes, keys, before) == wanted


@given(data=st.data())
@EXAMPLES
def test_groups_of_everything(data: Any) -> None:
    history = data.draw(histories(True))
    wanted = asked(f"SELECT {', '.join(AGGREGATES)} FROM t HAVING count(*) > 0", t=history[1])
    assert grouped(history, True, [], False) == wanted


@given(data=st.data())
@EXAMPLES
def test_groups_in_batch_mode(data: Any) -> None:
    steps, alive = data.draw(histories(True))
    history = [step for step in steps if isinstance(step, list)], alive
    wanted = asked(f"SELECT k, {', '.join(AGGREGATES)} FROM t GROUP BY k", t=alive)
    assert grouped(history, True, ["k"], False, batch=True) == wanted


def played(rig: Rig, history: Any, deletes: bool) -> Rig:
    for step in history[0]:
        if isinstance(step, int):
            rig.rescale(step)
        elif step:
            rig.batch(columns(step, deletes))
    return rig


ORDERS = {
    "v DESC NULLS LAST, id": (("v", True), ("id", False)),
    "x NULLS FIRST, id DESC": (("x", False), ("id", True)),
    "s DESC NULLS LAST, id": (("s", True), ("id", False)),
}


@pytest.mark.parametrize("deletes", [False, True], ids=["appends", "changes"])
@pytest.mark.parametrize("rank", ["rank", None])
@given(data=st.data())
@EXAMPLES
def test_top_rows(data: Any, deletes: bool, rank: str | None) -> None:
    history = data.draw(histories(deletes))
    n, order = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(list(ORDERS)))
    before = data.draw(st.booleans()) or (rank is None and n > 1)
    keys = data.draw(st.sampled_from([["k"], ["f"], []]))
    over = f"{'PARTITION BY ' + keys[0] if keys else ''} ORDER BY {order}"
    ranked = f"SELECT *, row_number() OVER ({over}) AS rank FROM t"
    wanted = asked(
        f"SELECT {'*' if rank else '* EXCLUDE rank'} FROM ({ranked}) WHERE rank <= {n}", t=history[1]
    )
    schema = with_change(SCHEMA) if deletes else SCHEMA
    make = partial(TopRowsOperator, hashed_schema(schema), keys, Ranking(n, ORDERS[order]), rank, before)
    rig = played(Rig(make, (schema, keys)), history, deletes)
    key = None if before else (*keys, *([rank] if rank else []))
    assert plain([tuple(row.values()) for row in rig.final(key)]) == wanted


@pytest.mark.parametrize("keep", ["first", "last"])
@given(data=st.data())
@EXAMPLES
def test_first_and_last_rows(data: Any, keep: str) -> None:
    history = data.draw(histories(False))
    order = "id" if keep == "first" else "id DESC"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY k, f ORDER BY {order}) AS rank FROM t"
    wanted = asked(f"SELECT * EXCLUDE rank FROM ({ranked}) WHERE rank = 1", t=history[1])
    hashed = hashed_schema(SCHEMA)
    make: Any = partial(FirstRowsOperator, hashed, ["k", "f"])
    if keep == "last":
        make = partial(TopRowsOperator, hashed, ["k", "f"], Ranking(1, (), True), None, False)
    rig = played(Rig(make, (SCHEMA, ["k", "f"])), history, False)
    key = None if keep == "first" else ("k", "f")
    assert plain([tuple(row.values()) for row in rig.final(key)]) == wanted


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 3), st.lists(st.tuples(ROW, st.booleans()), max_size=8)), max_size=9
    )
)
@EXAMPLES
def test_last_rows_of_upserts(steps: list[Any]) -> None:
    """Rows that replace each other, and deletions that say nothing but the key, also of keys never seen."""
    schema, last, number = with_change(SCHEMA), {}, 0
    rig = Rig(partial(LastRowsOperator, hashed_schema(schema), ["k", "f"]), (schema, ["k", "f"]))
    for step in steps:
        if isinstance(step, int):
            rig.rescale(step)
            continue
        batch: list[Any] = []
        for row, gone in step:
            number += 1
            key = plain([row[:2]])[0]
            full = (number, *row)
            last[key] = None if gone else full
            batch.append(((None, *row[:2], *[None] * (len(row) - 2)) if gone else full, 3 if gone else 2))
        if batch:
            rig.batch(columns(batch, True))
    found = plain([tuple(row.values()) for row in rig.final()])
    assert found == plain([row for row in last.values() if row is not None])


def joined(how: str, deletes: tuple[bool, bool]) -> RegularJoin:
    sides = tuple(hashed_schema(with_change(SCHEMA) if each else SCHEMA) for each in deletes)
    left = tuple((f"l_{name}", 0, name) for name in SCHEMA.names)
    right = tuple((f"r_{name}", 1, name) for name in SCHEMA.names)
    names = left if how in ("semi", "anti") else left + right
    keys = ("k", "f")
    key_schema = pa.schema([SCHEMA.field(key) for key in keys])
    return RegularJoin(how, (sides[0], sides[1]), (keys, keys), key_schema, names, True)


@pytest.mark.parametrize("how", KINDS)
@given(data=st.data())
@EXAMPLES
def test_joins(data: Any, how: str) -> None:
    deletes = data.draw(st.sampled_from([(False, False), (True, True), (True, False), (False, True)]))
    left, right = (data.draw(histories(each)) for each in deletes)
    schemas = [with_change(SCHEMA) if each else SCHEMA for each in deletes]
    rig = Rig(
        partial(RegularJoinOperator, joined(how, deletes)), *((schema, ["k", "f"]) for schema in schemas)
    )
    rest = [list(left[0]), list(right[0])]
    while any(rest):
        side = data.draw(st.integers(0, 1)) if all(rest) else int(not rest[0])
        step = rest[side].pop(0)
        if isinstance(step, int):
            rig.rescale(step)
        elif step:
            rig.batch(columns(step, deletes[side]), side)
    kind = {"left": "LEFT", "right": "RIGHT", "full": "FULL"}.get(how, how.upper())
    query = f"SELECT * FROM l {kind} JOIN r ON l.k = r.k AND l.f = r.f"
    found = plain([tuple(row.values()) for row in rig.final()])
    assert found == asked(query, l=left[1], r=right[1])
