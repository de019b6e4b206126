"""``ROW_NUMBER()`` with ``WHERE rn <= n`` around it: the first n of each key; so is ORDER BY with LIMIT.

The first by event time, or the last, of each key is dropping duplicates, which keeps less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from penstock.dataframe import DataFrame
from penstock.dataframe.states import name_states
from penstock.expressions.face import col, lit
from penstock.expressions.nodes import Column
from penstock.sql.expressions import Expressions
from penstock.sql.relations import WINDOW_END, WINDOW_START, Field, Ranking, Relation

if TYPE_CHECKING:
    from penstock.sql.planner import Planner

_SHOWN = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) WHERE rn <= 3"
)


_HIDDEN = "order$"
"""Columns that ORDER BY needs and nobody sees begin so."""


def numbered(planner: Planner, node: exp.Select, relation: Relation) -> Relation | None:
    """The query within: all but the number, and what it counts by.  ``None`` if there is no ROW_NUMBER()."""
    from penstock.sql.planner import listed, project, star_of

    windows = [part for part in node.expressions if isinstance(part.unalias(), exp.Window)]
    ranks = [part for part in windows if _function(part) == "ROW_NUMBER"]
    if not ranks:
        return None
    if len(windows) > 1 or node.args.get("distinct"):
        raise planner.text.refuse(ranks[0], f"ROW_NUMBER() stands alone: {_SHOWN}")
    window = ranks[0].unalias()
    if not window.args.get("order"):
        raise planner.text.refuse(window, f"ROW_NUMBER() needs an order: {_SHOWN}")
    makers = planner.expressions(replace(relation, window=None))
    bounds = _bounds(node, relation)
    others = exp.Select(
        expressions=[part for part in node.expressions if part is not ranks[0] and part not in bounds]
    )
    wanted = listed(planner.text, others, relation, makers) if others.expressions else []
    shown = len(wanted)
    by = _partition(planner, window, relation)

    def column(part: exp.Expr) -> str:
        made = makers.make(part)
        for name, other, _ in wanted:
            if other is not None and other.node == made.node:
                return name
        name = f"by${len(wanted)}"
        wanted.append((name, made, part))
        return name

    with planner.text.at(window):
        partition = tuple(column(part) for part in by)
        order = tuple(
            (column(part.this), bool(part.args.get("desc")))
            for part in _with_nulls(planner, window.args["order"].expressions)
        )
    found = project(planner.text, wanted, relation)
    name = ranks[0].alias or f"EXPR${shown}"
    named = tuple((part.alias or part.name, part.unalias().name) for part in bounds)
    if relation.window is not None and any(star_of(part) is not None for part in others.expressions):
        named = tuple((it, it) for it in (WINDOW_START, WINDOW_END))
    ranking = Ranking(name, partition, order, window, relation.window, named)
    return replace(found, fields=found.fields[:shown], ranking=ranking)


def _bounds(node: exp.Select, relation: Relation) -> list[exp.Expr]:
    """The bounds of windows in the list, which are there only once rows are ranked."""
    if relation.window is None:
        return []
    parts = [part for part in node.expressions if isinstance(part.unalias(), exp.Column)]
    return [part for part in parts if part.unalias().name in (WINDOW_START, WINDOW_END)]


def _partition(planner: Planner, window: exp.Expr, relation: Relation) -> list[exp.Expr]:
    """What it counts by, without the bounds of a window of rows: these must be there."""
    parts = list(window.args.get("partition_by") or ())
    if relation.window is None:
        return parts
    bounds = [
        part for part in parts if isinstance(part, exp.Column) and part.name in (WINDOW_START, WINDOW_END)
    ]
    if len({part.name for part in bounds}) < 2:
        raise planner.text.refuse(
            window, f"rows of windows are counted PARTITION BY {WINDOW_START}, {WINDOW_END}"
        )
    return [part for part in parts if part not in bounds]


def _function(part: exp.Expr) -> str:
    inner = part.unalias().this
    return inner.name.upper() if isinstance(inner, exp.Anonymous) else type(inner).__name__.upper()


def ranked(planner: Planner, relation: Relation, where: list[exp.Expr]) -> Relation:
    """The first n of each key, if the relation waits for that; the condition is taken out of ``where``."""
    ranking = relation.ranking
    if ranking is None:
        return relation
    for part in where:
        most, whole = _most(part, ranking.name)
        if most is not None:
            if whole:
                where.remove(part)
            if most < 1:
                raise planner.text.refuse(part, f"{part.sql()} leaves nothing")
            with planner.text.at(ranking.node):
                return _first(relation, ranking, most)
    raise planner.text.refuse(
        ranking.node, f"ROW_NUMBER() needs WHERE {ranking.name} <= n around it, with a constant n: {_SHOWN}"
    )


def settled(planner: Planner, relation: Relation) -> Relation:
    """The relation, unless it waits for its ranks to be chosen: its number is no column yet."""
    if relation.ranking is not None:
        raise planner.text.refuse(relation.ranking.node, "ROW_NUMBER() needs WHERE rn <= n around it")
    return relation


def _most(node: exp.Expr, name: str) -> tuple[int | None, bool]:
    """The n of ``name <= n``, and whether that is all that the condition says."""
    turned = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}
    sign: Any = type(node)
    number: int | None = None
    if isinstance(node, exp.Between) and _is(node.this, name):
        first = _constant(node.args["low"])
        return (None, False) if first is None else (_constant(node.args["high"]), first <= 1)
    if sign in turned and _is(node.args.get("expression"), name):
        sign, number = turned[sign], _constant(node.this)
    elif sign in (exp.LTE, exp.LT, exp.EQ) and _is(node.this, name):
        number = _constant(node.expression)
    if number is None:
        return None, False
    return number - (sign is exp.LT), sign is not exp.EQ or number == 1


def _is(node: exp.Expr | None, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name == name


def _constant(node: exp.Expr) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _first(relation: Relation, ranking: Ranking, most: int) -> Relation:
    name, descending = ranking.order[0]
    table = relation.fields[0].table if relation.fields else None
    rank = ranking.name
    made = f"first {most} of {relation.made} by {ranking.partition}, {ranking.order}"
    by = [col(it).desc() if down else col(it) for it, down in ranking.order]
    if ranking.window is not None:
        rows = relation.frame.window(ranking.window)
        frame = rows.top_n(most, by, partition_by=ranking.partition, rank=None if most == 1 else rank)
    elif most == 1 and len(ranking.order) == 1 and relation.times.get(name) == 0 and ranking.partition:
        keep = "last" if descending else "first"
        frame = relation.frame.drop_duplicates(*ranking.partition, keep=keep, order_by=name)
    else:
        chosen = None if most == 1 else rank
        frame = relation.frame.top_n(most, by, partition_by=ranking.partition, rank=chosen)
    frame = name_states(frame, "top", made)
    if most == 1:
        frame = frame.with_column(rank, lit(1, pa.int64()))
    bounds = [Field(table, called, column, False) for called, column in ranking.bounds]
    fields = (*relation.fields, *bounds, Field(table, rank, rank, False))
    windows = (WINDOW_START, WINDOW_END) if ranking.window is not None else relation.bounds
    return replace(relation, frame=frame, fields=fields, ranking=None, made=made, bounds=windows)


def _with_nulls(planner: Planner, parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The parts of ORDER BY: nulls are the smallest, and where they are not, what says so comes first."""
    found: list[exp.Expr] = []
    for part in parts:
        planner.text.only(part, ("desc", "nulls_first"))
        down = bool(part.args.get("desc"))
        if bool(part.args.get("nulls_first")) is down:
            if isinstance(part.this, exp.Literal):
                raise planner.text.refuse(part, "NULLS FIRST and NULLS LAST stand behind columns, not places")
            nulls = exp.Is(this=part.this.copy(), expression=exp.Null())
            found.append(exp.Ordered(this=nulls, desc=down, nulls_first=not down))
        found.append(part)
    return found


def with_orders(planner: Planner, node: exp.Select) -> exp.Select:
    """The query with what ORDER BY needs in its list, too; :func:`ordered` takes it out again."""
    if node.args.get("order") is None or node.args.get("limit") is None:
        return node
    found = node.copy()
    order = found.args["order"]
    order.set("expressions", _with_nulls(planner, order.expressions))
    if node.args.get("distinct"):
        return found
    names = {part.alias_or_name for part in found.expressions}
    star = any(part.is_star for part in found.expressions)
    for at, part in enumerate(found.args["order"].expressions):
        inner = part.this
        listed = isinstance(inner, exp.Column) and not inner.table and (star or inner.name in names)
        if not listed and _constant(inner) is None:
            found.append("expressions", exp.alias_(inner.copy(), f"{_HIDDEN}{at}"))
            part.set("this", exp.column(f"{_HIDDEN}{at}"))
    return found


def ordered(planner: Planner, node: exp.Select, relation: Relation) -> Relation:
    """ORDER BY with LIMIT: the first n of all; either alone is refused."""
    order, limit = node.args.get("order"), node.args.get("limit")
    if order is None and limit is None:
        return relation
    settled(planner, relation)
    if limit is None:
        raise planner.text.refuse(
            order,
            "ORDER BY without LIMIT is not there: a stream has no last row to wait for; write LIMIT "
            "behind it",
        )
    most = _limit(limit)
    if most is None or most < 1:
        raise planner.text.refuse(limit, "LIMIT takes a number from 1 on, and rows come without ties")
    if order is None:
        raise planner.text.refuse(
            limit, f"LIMIT without ORDER BY is not there: any {most} rows are had by .take({most})"
        )
    makers = planner.expressions(relation)
    with planner.text.at(order):
        by = [_ordered(planner, relation, makers, part) for part in order.expressions]
        frame: DataFrame = relation.frame.top_n(most, by, partition_by=(), rank=None)
    made = f"first {most} of {relation.made} by {', '.join(map(str, by))}"
    frame = name_states(frame, "top", made)
    fields = tuple(it for it in relation.fields if not it.name.startswith(_HIDDEN))
    if len(fields) < len(relation.fields):
        frame = frame.select(*(str(it.column) for it in fields if it.column is not None))
    return replace(relation, frame=frame, fields=fields)


def _limit(limit: exp.Expr) -> int | None:
    """The n of ``LIMIT n`` and of ``FETCH FIRST n ROWS ONLY``."""
    if not isinstance(limit, exp.Fetch):
        return _constant(limit.expression)
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    count = limit.args.get("count")
    return 1 if count is None else _constant(count)


def _ordered(planner: Planner, relation: Relation, makers: Expressions, part: exp.Expr) -> Any:
    inner = part.this
    at = _constant(inner)
    if at is not None and 1 <= at <= len(relation.fields):
        made = col(str(relation.fields[at - 1].column))
    else:
        made = makers.make(inner)
    if not isinstance(made.node, Column):
        raise planner.text.refuse(part, f"ORDER BY with LIMIT takes columns of the list, not {inner.sql()}")
    return made.desc() if part.args.get("desc") else made
