"""What single functions are worth, and what they refuse: with nulls, as arrays and as constants."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError, TypeMismatchError
from penstock.expressions.face import Expression, call, coalesce, col, lit, udf, when
from penstock.expressions.program import Predicate, Projection

BATCH = pa.record_batch(
    {
        "i": pa.array([1, -7, None, 2**62], pa.int64()),
        "k": pa.array([0, 2, 3, 4], pa.int32()),
        "f": pa.array([1.5, float("nan"), None, -2.5]),
        "s": pa.array(["Hello World", "a,b,c", None, "x=12&channel_id=foo"]),
        "d": pa.array([Decimal("1.25"), None, Decimal("-3.50"), Decimal("0.10")], pa.decimal128(10, 2)),
        "t": pa.array(
            [
                dt.datetime(2026, 1, 31, 12, 30, 15, 123_000, dt.UTC),
                None,
                dt.datetime(1969, 12, 31, tzinfo=dt.UTC),
            ]
            + [dt.datetime(2026, 6, 1, tzinfo=dt.UTC)],
            pa.timestamp("ms"),
        ),
        "l": pa.array([[1, 2], [], None, [3]]),
        "m": pa.array([[("a", 1)], None, [], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
        "r": pa.array([{"x": 1, "y": "q"}, None, {"x": None, "y": "z"}, {"x": 3, "y": ""}]),
        "j": pa.array(['{"a":{"b":[1,2,"x"]}}', "nope", None, '{"a":1}']),
        "c": pa.array(["u", "v", "u", None]).dictionary_encode(),
    }
)


def worth(expression: Expression) -> list[Any]:
    found = Projection(BATCH.schema, {"x": expression.node}).apply(BATCH)
    found.validate(full=True)
    values: list[Any] = found.column(0).to_pylist()
    return values


VALUES: list[tuple[Expression, list[Any]]] = [
    (when(col("k") != 0, col("i") / col("k")).otherwise(-1), [-1, -3, None, 2**60]),
    # Where the first part decides, the second one is not computed.
    ((col("k") != 0) & (col("i") / col("k") < 0), [False, True, None, False]),
    ((col("k") == 0) | (col("i") / col("k") < 0), [True, True, None, False]),
    ((col("i") < 2**61) & (col("k") != 0) & (col("i") * 4 < 0), [False, True, None, False]),
    (~((col("k") == 0) | (col("i") / col("k") < 0)) & (col("k") > 3), [False, False, False, True]),
    (col("i") % 4, [1, -3, None, 0]),
    (col("f").round(0), [2.0, None, None, -3.0]),
    (col("f").round(400), [1.5, None, None, -2.5]),
    (col("f").round(-400), [0.0, None, None, 0.0]),
    ((col("f") * 1e307).round(2), [1.5e307, None, None, -2.5e307]),
    ((col("f") / 2).cast(pa.float32()).round(1), [pytest.approx(0.8), None, None, pytest.approx(-1.3)]),
    ((col("f") * 1e37).cast(pa.float32()).round(2).cast(pa.float64()) > 1e37, [True, True, None, False]),
    (col("i").round(-20), [0, 0, None, 0]),
    (col("k").cast(pa.int8()).round(-3), [0, 0, 0, 0]),
    (lit(7).round(-20), [0, 0, 0, 0]),
    (col("k").cast(pa.uint8()) % (col("k") + 1).cast(pa.uint8()), [0, 2, 3, 4]),
    (col("i").in_(1.0, Decimal("2.5")), [True, False, None, False]),
    (col("f").in_(1, Decimal("1.5")), [True, False, None, False]),
    (col("d").in_(Decimal("1.25"), 3.5), [True, None, False, False]),
    (col("i").null_if(1.0), [None, -7, None, 2**62]),
    ((col("i") + 1).null_if(1.0), [2, -6, None, 2**62 + 1]),
    (col("f") > 1, [True, True, None, False]),
    (col("f") == float("nan"), [False, True, None, False]),
    (col("f").in_(1.5, float("nan")), [True, True, None, False]),
    (col("i").in_([1, None]), [True, None, None, None]),
    (col("i").between(-10, 10), [True, True, None, False]),
    (col("s").like("%o%l_"), [True, False, None, False]),
    (call("like", col("s"), "%!_id=%", "!"), [False, False, None, True]),
    (col("s").split_index(",", 1), [None, "b", None, None]),
    (col("s").regexp_extract("(&|^)channel_id=([^&]*)", 2), [None, None, None, "foo"]),
    (col("s").regexp_replace("([a-c]),", "$1;"), ["Hello World", "a;b;c", None, "x=12&channel_id=foo"]),
    (col("s").regexp("(?=W)"), [True, False, None, False]),
    (col("s").substring(-3), ["rld", "b,c", None, "foo"]),
    (col("s").substring(2, 3), ["ell", ",b,", None, "=12"]),
    (col("s").lpad(3, "*"), ["Hel", "a,b", None, "x=1"]),
    (call("concat_ws", "-", col("s"), "z"), ["Hello World-z", "a,b,c-z", "z", "x=12&channel_id=foo-z"]),
    (col("d") + 1, [Decimal("2.25"), None, Decimal("-2.50"), Decimal("1.10")]),
    (col("d") * col("d"), [Decimal("1.5625"), None, Decimal("12.2500"), Decimal("0.0100")]),
    (
        (col("d") / 3).cast(pa.decimal128(20, 4)),
        [Decimal("0.4167"), None, Decimal("-1.1667"), Decimal("0.0333")],
    ),
    (col("d").cast(pa.int64()), [1, None, -3, 0]),
    (col("t").extract("hour"), [12, None, 0, 0]),
    (col("t").extract("epoch"), [1769862615, None, -86400, 1780272000]),
    (col("t").date_format("yyyy-MM-dd HH:mm:ss.SSS").substring(1, 23), ["2026-01-31 12:30:15.123", None]),
    (col("l")[1], [1, None, None, 3]),
    (col("l").cardinality, [2, 0, None, 1]),
    (col("l").array_contains(2), [True, False, None, False]),
    (col("m")["a"], [1, None, None, None]),
    (col("m").cardinality, [1, None, 0, 1]),
    (col("r").get("x"), [1, None, None, 3]),
    (col("j").json_value("$.a.b[2]"), ["x", None, None, None]),
    (col("j").json_query("$.a"), ['{"b":[1,2,"x"]}', None, None, None]),
    (col("s").try_cast(pa.int64()), [None, None, None, None]),
    (lit("12").cast(pa.int64()) + 1, [13, 13, 13, 13]),
    (coalesce(col("i"), 0), [1, -7, 0, 2**62]),
    (col("i").null_if(1), [None, -7, None, 2**62]),
    (col("i").is_distinct_from(None), [True, True, False, True]),
    (call("greatest", col("f"), 0.0), [1.5, None, None, 0.0]),
    (col("c") == "u", [True, False, True, None]),
    (call("array", col("k"), 7), [[0, 7], [2, 7], [3, 7], [4, 7]]),
    (udf(lambda x: x * 2, result_type=pa.int64(), name="twice")(col("k")), [0, 4, 6, 8]),
    (call("timestampdiff", "hour", col("t"), col("t") + dt.timedelta(minutes=150)), [2, None, 2, 2]),
]


@pytest.mark.parametrize(("expression", "wanted"), VALUES, ids=[str(expression) for expression, _ in VALUES])
def test_values(expression: Expression, wanted: list[Any]) -> None:
    found = [None if value != value else value for value in worth(expression)]
    assert found[: len(wanted)] == wanted


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (col("I"), "there is no column 'I'"),
        (col("i") + col("s"), r"\(i \+ s\): it takes numbers"),
        (col("i") & True, "i is int64, where bool is wanted"),
        (call("flor", 1), "there is no function 'flor'; did you mean 'floor'"),
        (call("round", 1, 2, 3), "round has 1 to 2 arguments, not 3"),
        (col("s").regexp_extract("(", 1), "is no regular expression"),
        (col("s").regexp_extract("a", 1), "has 0 groups"),
        (col("s").like("a").like("a"), "it takes texts, not bool"),
        (col("t") > "2026", "have no common type"),
        (col("r").get("z"), "there is no field 'z'; there are x, y"),
        (col("j").json_value("a"), "begins with"),
        (col("t").extract("fortnight"), "there is no unit 'fortnight'"),
        (col("t").date_format("qq"), "'qq' in the pattern"),
        (col("l") == col("l"), "are not compared"),
        (col("d") % 2, "remainder of decimals"),
        (col("s").cast(pa.list_(pa.int64())), "cannot be cast"),
        (col("i").sum, "belongs into agg"),
    ],
    ids=str,
)
def test_refused_before_there_is_data(expression: Expression, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Projection(BATCH.schema, {"x": expression.node})


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (col("i") * 4, r"\(i \* 4\) cannot be computed: overflow"),
        ((col("k") > 0) & (col("i") * 4 > 0), r"\(i \* 4\) cannot be computed: overflow"),
        (lit(2**63 - 1).round(-19), "cannot be computed"),
        (col("k") / 0, "divide by zero"),
        (1 % col("k"), "divide by zero"),
        (col("i").cast(pa.int32()), "not in range"),
        (col("s").cast(pa.int64()), "CAST"),
        (udf(lambda x: "no", result_type=pa.int64(), name="wrong")(col("k")), "promised int64"),
    ],
    ids=str,
)
def test_values_that_cannot_be(expression: Expression, told: str) -> None:
    with pytest.raises(TypeMismatchError, match=told):
        worth(expression)


def test_parts_that_no_row_needs_are_not_computed() -> None:
    asked = []

    def ask(value: int) -> int:
        asked.append(value)
        return value

    asking = udf(ask, result_type=pa.int64())
    assert worth(when(col("k") > 2, asking(col("k"))).otherwise(0)) == [0, 0, 3, 4]
    assert asked == [3, 4]
    assert worth(coalesce(col("k"), lit(1) / 0)) == [0, 2, 3, 4]


def test_equal_parts_are_computed_once() -> None:
    asked = []

    def ask(value: int) -> int:
        asked.append(value)
        return value

    asking = udf(ask, result_type=pa.int64())
    assert worth(asking(col("k")) + asking(col("k"))) == [0, 4, 6, 8]
    assert len(asked) == 4


def test_columns_that_only_change_their_name_are_not_touched() -> None:
    found = Projection(BATCH.schema, {"code": col("c").node}).apply(BATCH)
    assert found.column(0).type == BATCH.column("c").type


def test_constants_of_different_kinds_are_different() -> None:
    one, again, true = lit(1).node, lit(1).node, lit(True).node
    assert one == again
    assert hash(one) == hash(again)
    assert one != true
    assert lit(0.0).node != lit(-0.0).node


def test_an_expression_is_neither_true_nor_false() -> None:
    with pytest.raises(ConfigError, match="write & for and"):
        assert col("i") > 1 and col("i") < 5
    with pytest.raises(ConfigError, match="is no int8"):
        lit(1000, pa.int8())
    with pytest.raises(ConfigError, match="cannot stand in an expression"):
        col("i") == object()


def test_a_condition_is_a_truth() -> None:
    with pytest.raises(ConfigError, match="a condition is true or false"):
        Predicate(BATCH.schema, col("i").node)
    assert Predicate(BATCH.schema, lit(None).node).mask(BATCH).to_pylist() == [False] * 4
