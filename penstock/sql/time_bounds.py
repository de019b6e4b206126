"""Bounds between the event times of two sides: ``b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.sql.errors import SqlError
from penstock.sql.relations import Relation, moment_of, moved_column

if TYPE_CHECKING:
    from penstock.sql.planner import Planner


@dataclass(frozen=True)
class Bounds:
    """How many milliseconds after the left row the right one may be; ``None`` is no bound."""

    lower: int | None = None
    upper: int | None = None
    finer: bool = False
    """Whether the columns tell times apart that are one millisecond of event time."""

    @property
    def complete(self) -> bool:
        """Whether rows can be forgotten."""
        return self.lower is not None and self.upper is not None

    def __and__(self, other: Bounds) -> Bounds:
        lowers = [it for it in (self.lower, other.lower) if it is not None]
        uppers = [it for it in (self.upper, other.upper) if it is not None]
        finer = self.finer or other.finer
        return Bounds(max(lowers, default=None), min(uppers, default=None), finer)


def bounds_of(node: exp.Expr, left: Relation, right: Relation, planner: Planner) -> Bounds | None:
    """The bounds that a condition sets; ``None`` if it is about something else."""
    if isinstance(node, exp.Paren):
        return bounds_of(node.this, left, right, planner)
    if isinstance(node, exp.Between):
        low = _compared(exp.GTE, node.this, node.args["low"], left, right, planner)
        high = _compared(exp.LTE, node.this, node.args["high"], left, right, planner)
        return None if low is None or high is None else low & high
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ):
        return _compared(type(node), node.this, node.expression, left, right, planner)
    return None


def _compared(
    sign: type[exp.Expr], one: exp.Expr, other: exp.Expr, left: Relation, right: Relation, planner: Planner
) -> Bounds | None:
    first, second = (_moment(it, left, right, planner) for it in (one, other))
    if first is None or second is None or first[0] == second[0]:
        return None
    finer = first[2] or second[2]
    if first[0] == "right":  # right + a >= left + b
        return replace(_bound(sign, second[1] - first[1]), finer=finer)
    turned: dict[type[exp.Expr], type[exp.Expr]] = {
        exp.LT: exp.GT,
        exp.LTE: exp.GTE,
        exp.GT: exp.LT,
        exp.GTE: exp.LTE,
    }
    return replace(_bound(turned.get(sign, sign), first[1] - second[1]), finer=finer)


def _bound(sign: type[exp.Expr], length: int) -> Bounds:
    """``right - left`` compared with a length."""
    if sign is exp.GTE:
        return Bounds(lower=length)
    if sign is exp.GT:
        return Bounds(lower=length + 1)
    if sign is exp.LTE:
        return Bounds(upper=length)
    return Bounds(upper=length - 1) if sign is exp.LT else Bounds(length, length)


def _moment(
    node: exp.Expr, left: Relation, right: Relation, planner: Planner
) -> tuple[str, int, bool] | None:
    """Whose event time it is, how many milliseconds past it, and whether its column has finer times."""
    for name, side in (("left", left), ("right", right)):
        try:
            made = planner.expressions(side).make(node)
        except SqlError:
            continue
        past = moment_of(made.node, side.times)
        if past is not None:
            return name, past, _is_finer(side.frame.schema.field(moved_column(made.node)).type)
    return None


def _is_finer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"))
