"""Expressions as DuckDB's SQL, and random ones: the oracle for what an expression is worth."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

from penstock.expressions.face import (
    Expression,
    call,
    coalesce,
    col,
    lit,
    when,
)
from penstock.expressions.nodes import Call, Case, Cast, Column, Literal, Node

INTS, FLOATS, TEXTS, BOOLS, TIMES = "int", "float", "text", "bool", "time"
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "s": pa.string(),
        "t": pa.string(),
        "b": pa.bool_(),
        "c": pa.bool_(),
        "u": pa.timestamp("us"),
        "v": pa.timestamp("us"),
    }
)
_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us"): "TIMESTAMP",
    pa.null(): "INTEGER",
}
_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "concat": "||",
    "is_distinct_from": "IS DISTINCT FROM",
    "like": "LIKE",
    "modulo": "%",
}
_POSTFIX = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
_TRUTH = {"is_true": "IS NOT DISTINCT FROM TRUE", "is_not_true": "IS DISTINCT FROM TRUE"}


def moment(*parts: int) -> dt.datetime:
    """A wall clock's time, in no zone."""
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


def sql(node: Node) -> str:
    """The same in DuckDB's words."""
    if isinstance(node, Column):
        return f'"{node.name}"'
    if isinstance(node, Literal):
        return _literal(node)
    if isinstance(node, Cast):
        return f"CAST({sql(node.argument)} AS {_TYPES[node.type]})"
    if isinstance(node, Case):
        whens = " ".join(f"WHEN {sql(condition)} THEN {sql(value)}" for condition, value in node.branches)
        return f"(CASE {whens} ELSE {sql(node.otherwise)} END)"
    assert isinstance(node, Call)
    return _call(node)


def _literal(node: Literal) -> str:
    value = node.value
    if value is None:
        return f"CAST(NULL AS {_TYPES[node.type]})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.timedelta):
        return f"to_microseconds({value // dt.timedelta(microseconds=1)})"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    return f"CAST('{value}' AS {_TYPES[node.type]})"


def _call(node: Call) -> str:
    name, arguments = node.function, [sql(argument) for argument in node.arguments]
    if name in _INFIX:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _POSTFIX or name in _TRUTH:
        return f"({arguments[0]} {_POSTFIX.get(name) or _TRUTH[name]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if name == "not":
        return f"(NOT {arguments[0]})"
    if name == "negate":
        return f"(- {arguments[0]})"
    if name == "divide":
        return f"({arguments[0]} // {arguments[1]})"
    if name == "extract":
        assert isinstance(node.arguments[0], Literal)
        return f"CAST(date_part('{node.arguments[0].value}', {arguments[1]}) AS BIGINT)"
    if name == "floor_time":
        assert isinstance(node.arguments[0], Literal)
        return f"date_trunc('{node.arguments[0].value}', {arguments[1]})"
    if name in ("greatest", "least"):  # DuckDB leaves nulls out
        missing = " OR ".join(f"{it} IS NULL" for it in arguments)
        return f"(CASE WHEN {missing} THEN NULL ELSE {name}({', '.join(arguments)}) END)"
    plain = {"char_length": "length", "position": "instr"}
    if name == "position":
        arguments.reverse()
    return f"{plain.get(name, name)}({', '.join(arguments)})"


class RandomExpressions:
    """Typed at random, as deep as asked for; what DuckDB does otherwise by design is not made."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def make(self, kind: str, depth: int) -> Expression:
        """An expression of a kind."""
        makers = {
            INTS: self._int,
            FLOATS: self._float,
            TEXTS: self._text,
            BOOLS: self._bool,
            TIMES: self._time,
        }
        if depth == 0 or self._rng.random() < 0.15:
            return self._leaf(kind)
        if self._rng.random() < 0.2:
            return self._conditional(kind, depth - 1)
        return makers[kind](depth - 1)

    def _leaf(self, kind: str) -> Expression:
        rng = self._rng
        columns = {INTS: "ij", FLOATS: "xy", TEXTS: "st", BOOLS: "bc", TIMES: "uv"}
        if rng.random() < 0.65:
            return col(rng.choice(columns[kind]))
        values: dict[str, list[Any]] = {
            INTS: [0, 1, -1, 7, 1000, None],
            FLOATS: [0.0, 0.5, -2.5, 1e300, float("nan"), float("inf"), None],
            TEXTS: ["", "a", "ab", "%", "Straße", None],
            BOOLS: [True, False, None],
            TIMES: [moment(2026, 3, 1, 12, 30, 5, 250), moment(1969, 12, 31, 23, 59), None],
        }
        types = {
            INTS: pa.int64(),
            FLOATS: pa.float64(),
            TEXTS: pa.string(),
            BOOLS: pa.bool_(),
            TIMES: pa.timestamp("us"),
        }
        return lit(rng.choice(values[kind]), types[kind])

    def _conditional(self, kind: str, depth: int) -> Expression:
        if self._rng.random() < 0.4:
            return coalesce(self.make(kind, depth), self.make(kind, depth))
        made = when(self.make(BOOLS, depth), self.make(kind, depth))
        if self._rng.random() < 0.5:
            made = made.when(self.make(BOOLS, depth), self.make(kind, depth))
        return made.otherwise(self.make(kind, depth))

    def _int(self, depth: int) -> Expression:
        rng = self._rng
        which = rng.randrange(8)
        if which == 0:
            divisor = self.make(INTS, depth)
            name = rng.choice(["divide", "modulo"])
            return when(
                (divisor != 0) & (divisor > -1000), call(name, self.make(INTS, depth), divisor)
            ).otherwise(0)
        if which == 1:
            return self.make(TEXTS, depth).char_length.cast(pa.int64())
        if which == 2:
            return call("position", self.make(TEXTS, depth), self.make(TEXTS, depth)).cast(pa.int64())
        if which == 3:
            unit = rng.choice(["year", "month", "day", "hour", "minute", "quarter", "week", "doy"])
            return call("extract", unit, self.make(TIMES, depth))
        if which == 4:
            return call(rng.choice(["greatest", "least"]), self.make(INTS, depth), col("i"))
        # Small numbers, so that nothing overflows: that is tested for itself.
        small = [
            when((it > -10_000) & (it < 10_000), it).otherwise(3)
            for it in (self.make(INTS, depth), self.make(INTS, depth))
        ]
        return call(rng.choice(["add", "subtract", "multiply"]), *small)

    def _float(self, depth: int) -> Expression:
        rng = self._rng
        which = rng.randrange(5)
        if which == 0:
            return self.make(INTS, depth).cast(pa.float64())
        if which == 1:
            return -self.make(FLOATS, depth)
        if which == 2:
            return call("abs", self.make(FLOATS, depth))
        return call(
            rng.choice(["add", "subtract", "multiply"]), self.make(FLOATS, depth), self.make(FLOATS, depth)
        )

    def _text(self, depth: int) -> Expression:
        rng = self._rng
        which = rng.randrange(6)
        if which == 0:
            return call("concat", self.make(TEXTS, depth), self.make(TEXTS, depth))
        if which == 1:
            return call(rng.choice(["upper", "lower", "reverse"]), col(rng.choice("st")))
        if which == 2:
            return self.make(TEXTS, depth).substring(rng.randint(1, 3), rng.randint(0, 4))
        if which == 3:
            return self.make(INTS, depth).cast(pa.string())
        if which == 4:
            return call(rng.choice(["trim", "ltrim", "rtrim"]), self.make(TEXTS, depth))
        return call("replace", self.make(TEXTS, depth), lit("a"), self.make(TEXTS, depth))

    def _bool(self, depth: int) -> Expression:
        rng = self._rng
        which = rng.randrange(7)
        if which == 0:
            return call(rng.choice(["and", "or"]), self.make(BOOLS, depth), self.make(BOOLS, depth))
        if which == 1:
            return ~self.make(BOOLS, depth)
        kind = rng.choice([INTS, FLOATS, TEXTS, TIMES, BOOLS])
        if which == 2:
            return call(rng.choice(["is_null", "is_not_null"]), self.make(kind, depth))
        if which == 3:
            return call("is_distinct_from", self.make(kind, depth), self.make(kind, depth))
        if which == 4:
            return call("in", self.make(INTS, depth), *(self._leaf(INTS) for _ in range(3)))
        if which == 5:
            return self.make(TEXTS, depth).like(rng.choice(["%", "a%", "_", "%b", "", "%a%"]))
        sign = rng.choice(["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
        return call(sign, self.make(kind, depth), self.make(kind, depth))

    def _time(self, depth: int) -> Expression:
        if self._rng.random() < 0.5:
            unit = self._rng.choice(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
            return call("floor_time", unit, self.make(TIMES, depth))
        hours = dt.timedelta(hours=self._rng.randint(-30, 30))
        return self.make(TIMES, depth) + lit(hours)


def random_batch(rng: random.Random, rows: int) -> pa.RecordBatch:
    """Rows with nulls, NaN, odd texts and times before 1970."""
    pools: dict[str, list[Any]] = {
        "int64": [None, 0, 1, -1, 5, 12, -300, 100_000, 2**40],
        "double": [None, 0.0, -0.0, 1.5, -2.25, 1e18, float("nan"), float("inf"), float("-inf")],
        "string": [None, "", "a", "b", "ab", "  pad ", "Ünïcode", "a%b_c", "AbC"],
        "bool": [None, True, False],
        "timestamp[us]": [
            None,
            moment(2026, 1, 31, 23, 59, 59, 999_999),
            moment(1970, 1, 1),
            moment(1965, 7, 4, 1, 2, 3),
            moment(2000, 2, 29),
        ],
    }
    return pa.record_batch(
        [pa.array([rng.choice(pools[str(field.type)]) for _ in range(rows)], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def same(ours: list[Any], theirs: list[Any]) -> bool:
    """Equal values; a NaN equals a NaN."""
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    return type(one) is type(other) and bool(one == other)
