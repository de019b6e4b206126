"""Results that change, case by case: what expires, what overflows, what cannot be added up."""

from __future__ import annotations

import math
from functools import partial

import pyarrow as pa
import pytest

from penstock.core.changes import CHANGE, with_change
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.operators.changes.accumulators import Aggregated
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.regular_join import RegularJoin, RegularJoinOperator
from tests.changes_rig import Rig

ROWS = pa.schema({"k": pa.int64(), "v": pa.int64()})


def rows(*pairs):
    return pa.RecordBatch.from_pylist([dict(k=k, v=v) for k, v in pairs], schema=ROWS)


def test_rows_of_a_join_expire():
    clock, hashed = ManualClock(), hashed_schema(ROWS)
    columns = (("k", -1, "k"), ("left", 0, "v"), ("right", 1, "v"))
    keys = pa.schema({"key0": pa.int64()})
    join = RegularJoin("inner", (hashed, hashed), (("k",), ("k",)), keys, columns, False, ttl_ms=1000)
    rig = Rig(partial(RegularJoinOperator, join), (ROWS, ["k"]), (ROWS, ["k"]), clock=clock)
    rig.batch(rows((1, 10), (2, 20)))
    clock.advance(600)
    rig.batch(rows((1, 11)))
    rig.rescale(1)
    clock.advance(600)
    rig.batch(rows((1, 5), (2, 6)), 1)
    assert rig.take() == [{"k": 1, "left": 11, "right": 5}]


def grouped(kind, *aggregates):
    schema = with_change(pa.schema({"k": pa.int64(), "v": kind}))
    make = partial(GroupAggOperator, hashed_schema(schema), ["k"], aggregates, False)
    rig = Rig(make, (schema, ["k"]), parallelism=1)

    def batch(*changes):
        found = [dict(k=k, v=v) | {CHANGE: change} for k, v, change in changes]
        rig.batch(pa.RecordBatch.from_pylist(found, schema=schema))
        return rig.take()

    return batch


def test_floats_that_are_no_numbers_are_taken_back():
    batch = grouped(pa.float64(), Aggregated("sum", "s", "SUM(v)", "v"))
    assert math.isnan(batch((1, 2.5, 0), (1, math.nan, 0), (1, math.inf, 0))[-1]["s"])
    assert batch((1, math.nan, 3))[-1]["s"] == math.inf
    assert math.isnan(batch((1, -math.inf, 0))[-1]["s"])
    assert batch((1, math.inf, 3), (1, -math.inf, 3)) == [{"k": 1, "s": 2.5, CHANGE: 2}]
    assert batch((1, 2.5, 3)) == [{"k": 1, "s": 2.5, CHANGE: 3}], "the group is gone"


def test_sums_that_do_not_fit():
    batch = grouped(pa.int64(), Aggregated("sum", "s", "SUM(v)", "v"))
    most = 2**63 - 1
    assert batch((1, most, 0), (1, 1, 0), (1, 1, 3))[-1]["s"] == most, "in between it may be too large"
    with pytest.raises(ConfigError, match="SUM.v. overflows int64"):
        batch((1, 1, 0))


def test_what_changes_nothing_is_not_told():
    batch = grouped(pa.int64(), Aggregated("max", "m", "MAX(v)", "v"))
    assert batch((1, 5, 0)) == [{"k": 1, "m": 5, CHANGE: 0}]
    assert batch((1, 4, 0)) == []
    assert batch((1, 5, 3)) == [{"k": 1, "m": 4, CHANGE: 2}]
    assert batch((1, 9, 0), (1, 9, 3)) == []
