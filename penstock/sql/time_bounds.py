"""Bounds between the event times of two sides: ``b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.sql.errors import SqlError
from penstock.sql.relations import Relation, moment_of

if TYPE_CHECKING:
    from penstock.sql.planner import Planner


@dataclass(frozen=True)
class Bounds:
    """How many milliseconds after the left row the right one may be; ``None`` is no bound."""

    lower: int | None = None
    upper: int | None = None

    @property
    def complete(self) -> bool:
        """Whether rows can be forgotten."""
        return self.lower is not None and self.upper is not None

    def __and__(self, other: Bounds) -> Bounds:
        lowers = [it for it in (self.lower, other.lower) if it is not None]
        uppers = [it for it in (self.upper, other.upper) if it is not None]
        return Bounds(max(lowers, default=None), min(uppers, default=None))


def has_parts(relation: Relation) -> bool:
    """Whether columns with event times hold parts of milliseconds, which event time itself has not."""
    kinds = [field.type for field in relation.frame.schema if field.name in relation.times]
    return any(pa.types.is_timestamp(kind) and kind.unit in ("us", "ns") for kind in kinds)


def bounds_of(node: exp.Expr, left: Relation, right: Relation, planner: Planner, wide: bool) -> Bounds | None:
    """The bounds that a condition sets; ``None`` if it is about something else.

    ``wide``: also for rows that the condition leaves out by a part of a millisecond.
    """
    if isinstance(node, exp.Paren):
        return bounds_of(node.this, left, right, planner, wide)
    if isinstance(node, exp.Between):
        low = _compared(exp.GTE, node.this, node.args["low"], left, right, planner)
        high = _compared(exp.LTE, node.this, node.args["high"], left, right, planner)
        return None if low is None or high is None else low & high
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ):
        found = _WITH_EQUAL.get(type(node), type(node)) if wide else type(node)
        return _compared(found, node.this, node.expression, left, right, planner)
    return None


_WITH_EQUAL: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.LTE, exp.GT: exp.GTE}


def _compared(
    sign: type[exp.Expr], one: exp.Expr, other: exp.Expr, left: Relation, right: Relation, planner: Planner
) -> Bounds | None:
    first, second = (_moment(it, left, right, planner) for it in (one, other))
    if first is None or second is None or first[0] == second[0]:
        return None
    if first[0] == "right":  # right + a >= left + b
        return _bound(sign, second[1] - first[1])
    turned: dict[type[exp.Expr], type[exp.Expr]] = {
        exp.LT: exp.GT,
        exp.LTE: exp.GTE,
        exp.GT: exp.LT,
        exp.GTE: exp.LTE,
    }
    return _bound(turned.get(sign, sign), first[1] - second[1])


def _bound(sign: type[exp.Expr], length: int) -> Bounds:
    """``right - left`` compared with a length."""
    if sign is exp.GTE:
        return Bounds(lower=length)
    if sign is exp.GT:
        return Bounds(lower=length + 1)
    if sign is exp.LTE:
        return Bounds(upper=length)
    return Bounds(upper=length - 1) if sign is exp.LT else Bounds(length, length)


def _moment(node: exp.Expr, left: Relation, right: Relation, planner: Planner) -> tuple[str, int] | None:
    """Whose event time it is, and how many milliseconds past it."""
    for name, side in (("left", left), ("right", right)):
        try:
            made = planner.expressions(side).make(node)
        except SqlError:
            continue
        past = moment_of(made.node, side.times)
        if past is not None:
            return name, past
    return None
