"""Aggregates over the rows before each row: ``SUM(x) OVER (PARTITION BY k ORDER BY ts)``."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.dataframe.states import name_states
from penstock.expressions.face import Expression, col
from penstock.sql.functions import AGGREGATES
from penstock.sql.grouping import fold
from penstock.sql.relations import Field, Relation
from penstock.sql.types import interval

if TYPE_CHECKING:
    from penstock.sql.planner import Planner

_SHOWN = "SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"


def computed(planner: Planner, node: exp.Select, relation: Relation) -> Relation:
    """The list of SELECT with aggregates over rows before; all over the same rows."""
    windows = [part.unalias() for part in node.expressions if isinstance(part.unalias(), exp.Window)]
    first = windows[0]
    if not hasattr(relation.frame, "over"):
        raise planner.text.refuse(
            first, "OVER is not there yet; GROUP BY window_start, window_end aggregates"
        )
    for window in windows:
        _check_function(planner, window)
    for other in windows[1:]:
        if _frame_of(other) != _frame_of(first):
            raise planner.text.refuse(
                other, "all aggregates of a list are over the same rows; use two queries"
            )
    makers = planner.expressions(relation)
    partition = [makers.make(part) for part in first.args.get("partition_by") or ()]
    _check_order(planner, relation, first)
    folds: dict[exp.Expr, Expression] = {}
    for window in windows:
        if window not in folds:
            with planner.text.at(window):
                folds[window] = fold(makers, window.this).alias(f"over${len(folds)}")
    with planner.text.at(first):
        rows = relation.frame.over(partition_by=partition, **_extent(planner, first))
        frame = rows.agg(*folds.values())
    made = f"over {relation.made}: {first.sql()}: {', '.join(map(str, folds.values()))}"
    frame = name_states(frame, "over", made)
    names = {window: str(made.name) for window, made in folds.items()}
    behind = Relation(
        frame,
        (*relation.fields, *(Field(None, name, name) for name in names.values())),
        f"({made})",
        relation.times,
        bounds=relation.bounds,
    )
    outside = planner.expressions(behind)
    outside._replace = lambda part: col(names[part]) if part in names else None
    listed = node.copy()
    return planner.projected(listed, behind, outside)


def _check_function(planner: Planner, window: exp.Expr) -> None:
    """An aggregate of our own, over rows that are named here."""
    planner.text.only(window, ("partition_by", "order", "spec", "over"))
    inner = window.this.this if isinstance(window.this, exp.Filter) else window.this
    if not isinstance(inner, exp.Anonymous) or inner.name.upper() not in AGGREGATES:
        shown = inner.name.upper() if isinstance(inner, exp.Anonymous) else inner.sql()
        raise planner.text.refuse(
            window,
            f"{shown} OVER rows is not there; {', '.join(AGGREGATES)} are, and ROW_NUMBER() with "
            "WHERE rn <= n around it",
        )


def _frame_of(window: exp.Expr) -> str:
    bare = window.copy()
    bare.set("this", exp.Null())
    return bare.sql()


def _check_order(planner: Planner, relation: Relation, window: exp.Expr) -> None:
    parts = window.args["order"].expressions if window.args.get("order") else []
    made = planner.expressions(relation).make(parts[0].this) if len(parts) == 1 else None
    name = getattr(getattr(made, "node", None), "name", None)
    if name is None or relation.times.get(name) != 0 or parts[0].args.get("desc"):
        raise planner.text.refuse(window, f"OVER needs ORDER BY the event time, ascending: {_SHOWN}")


def _extent(planner: Planner, window: exp.Expr) -> dict[str, Any]:
    """Which rows before; all of them if nothing is said."""
    spec = window.args.get("spec")
    if spec is None:
        return {}
    planner.text.only(spec, ("kind", "start", "start_side", "end", "end_side"))
    kind, start = str(spec.args.get("kind")).upper(), spec.args.get("start")
    if kind not in ("ROWS", "RANGE"):
        raise planner.text.refuse(window, f"{kind} is not there; ROWS and RANGE are: {_SHOWN}")
    if (spec.args.get("end") or "CURRENT ROW") != "CURRENT ROW" or spec.args.get("start_side") == "FOLLOWING":
        raise planner.text.refuse(window, f"rows end with the current one, and begin before it: {_SHOWN}")
    if start == "CURRENT ROW":
        return {"rows": 0} if kind == "ROWS" else {"range": dt.timedelta()}
    if start == "UNBOUNDED":
        return {"rows": "unbounded"} if kind == "ROWS" else {}
    if kind == "ROWS":
        if isinstance(start, exp.Literal) and start.is_int:
            return {"rows": int(start.this)}
        raise planner.text.refuse(window, f"ROWS takes a number: {_SHOWN}")
    length: dt.timedelta = interval(start, planner.text)
    return {"range": length}
