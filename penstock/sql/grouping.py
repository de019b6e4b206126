"""GROUP BY and aggregates: by windows, by windowed results, or without windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.dataframe import DataFrame
from penstock.dataframe.states import name_states
from penstock.expressions.face import Expression, call, col, count, lit, when
from penstock.expressions.nodes import Column, Node
from penstock.sql import froms
from penstock.sql.errors import SqlError, Text
from penstock.sql.expressions import Expressions
from penstock.sql.functions import AGGREGATES
from penstock.sql.relations import WINDOW_END, WINDOW_START, WINDOW_TIME, Relation
from penstock.sql.types import interval

if TYPE_CHECKING:
    from penstock.sql.planner import Planner

_TOGETHER = "GROUPING SETS, ROLLUP and CUBE are not there; UNION ALL one query for each grouping"
_MS = dt.timedelta(milliseconds=1)
_BEHIND = {
    f"{name}_{part}": of
    for name in ("TUMBLE", "HOP", "SESSION")
    for part, of in (("START", WINDOW_START), ("END", WINDOW_END), ("ROWTIME", WINDOW_TIME))
}
"""``TUMBLE_START(ts, INTERVAL '1' MINUTE)`` and its like, of windows that stand in GROUP BY."""


def is_aggregate(node: exp.Expr) -> bool:
    """``SUM(x)`` and its like, with FILTER or not; not those over a window of rows."""
    inner = node.this if isinstance(node, exp.Filter) else node
    named = isinstance(inner, exp.Anonymous) and inner.name.upper() in AGGREGATES
    return named and not isinstance(node.parent, exp.Window | exp.Filter)


def aggregates_of(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates within a part of the statement, but none of queries within it."""
    found = []
    for part in node.walk(prune=lambda it: isinstance(it, exp.Query) and it is not node):
        if is_aggregate(part):
            found.append(part)
    return found


def groups(node: exp.Select) -> bool:
    """Whether the query has groups, or is one."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(aggregates_of(part) for part in node.expressions)


@dataclass(frozen=True)
class _Key:
    name: str
    made: Expression


def grouped(planner: Planner, node: exp.Select, relation: Relation) -> Relation:
    """The groups, filtered by HAVING, as the list of SELECT asks for them."""
    group = node.args.get("group")
    if group is not None:
        _check_group(planner.text, group)
    nodes = [_meant(planner, node, part) for part in (group.expressions if group is not None else ())]
    relation, nodes, windowed = _take_window(planner, node, relation, nodes)
    makers = planner.expressions(relation)
    keys = _keys(planner, node, relation, makers, nodes)
    folds = _folds(planner, node, makers)
    frame, made = _aggregated(planner, node, relation, keys, folds, windowed)
    behind = _Behind(planner, relation, makers, keys, folds, windowed)
    result = _result(relation, frame, made, keys, windowed)
    outside = Expressions(result, planner.text, planner.functions, behind.replace)
    having = node.args.get("having")
    if having is not None:
        with planner.text.at(having):
            result = result.with_frame(frame.filter(outside.make(having.this)))
    return planner.projected(node, result, outside)


def _check_group(text: Text, group: exp.Group) -> None:
    for part in group.expressions:
        if isinstance(part, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise text.refuse(part, _TOGETHER)
        if isinstance(part, exp.Tuple):
            raise text.refuse(part, "GROUP BY () is not there; leave GROUP BY out for one group of all rows")
    for name, value in group.args.items():
        if value and name != "expressions":
            said = "GROUP BY ALL is not there; write the columns" if name == "all" else _TOGETHER
            raise text.refuse(group, said)


# --- keys ------------------------------------------------------------------------------------------------


def _meant(planner: Planner, node: exp.Select, part: exp.Expr) -> exp.Expr:
    """The expression of ``GROUP BY 1``, or of a name that the list of SELECT gives."""
    if isinstance(part, exp.Literal) and part.is_int:
        at = int(part.this) - 1
        if not 0 <= at < len(node.expressions):
            raise planner.text.refuse(part, f"the list of SELECT has no column {at + 1}")
        listed: exp.Expr = node.expressions[at].unalias()
        return listed
    return part


def _take_window(
    planner: Planner, node: exp.Select, relation: Relation, nodes: list[exp.Expr]
) -> tuple[Relation, list[exp.Expr], bool]:
    """The window among the keys, and the other keys."""
    legacy = [
        part for part in nodes if isinstance(part, exp.Anonymous) and part.name.upper() in froms.WINDOWS
    ]
    if legacy:
        window = legacy[0]
        assert isinstance(window, exp.Anonymous)
        relation = _group_window(planner, window, relation)
        return relation, [part for part in nodes if part is not window], True
    if relation.window is None:
        return relation, nodes, False
    bounds = [part for part in nodes if _is_bound(part)]
    named = {part.name for part in bounds}
    if not {WINDOW_START, WINDOW_END} <= named:
        raise planner.text.refuse(
            node.args.get("group") or node,
            f"windows are grouped BY {WINDOW_START}, {WINDOW_END}, and more columns",
        )
    return relation, [part for part in nodes if part not in bounds], True


def _is_bound(part: exp.Expr) -> bool:
    return isinstance(part, exp.Column) and part.name in (WINDOW_START, WINDOW_END, WINDOW_TIME)


def _group_window(planner: Planner, node: exp.Anonymous, relation: Relation) -> Relation:
    """``GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)``, as older programs write it."""
    name = node.name.upper()
    if len(node.expressions) < 2:
        raise planner.text.refuse(node, f"{name} takes a column with the time and a length of time")
    time = froms.descriptor(planner.text, node.expressions[0], relation, name)
    sizes = [interval(part, planner.text) for part in node.expressions[1:]]
    with planner.text.at(node):
        window = froms.window_of(planner.text, node, name, sizes, time.column is None)
    return replace(relation, window=window, clock=time.column is None)


def _keys(
    planner: Planner, node: exp.Select, relation: Relation, makers: Expressions, nodes: Sequence[exp.Expr]
) -> list[_Key]:
    aliases = {part.alias: part.unalias() for part in node.expressions if isinstance(part, exp.Alias)}
    found: list[_Key] = []
    for at, part in enumerate(nodes):
        named = isinstance(part, exp.Column) and not part.table and part.name in aliases
        if named and not relation.find(part.name):
            part = aliases[part.name]
        with planner.text.at(part):
            made = makers.make(part)
        alias = next((name for name, of in aliases.items() if of == part), None)
        name = made.node.name if isinstance(made.node, Column) else alias or f"key${at}"
        if any(key.made.node == made.node for key in found):
            continue
        if any(key.name == name for key in found):
            name = f"key${at}"
        found.append(_Key(name, made))
    return found


# --- aggregates ------------------------------------------------------------------------------------------


def _folds(planner: Planner, node: exp.Select, makers: Expressions) -> dict[exp.Expr, Expression]:
    """The aggregates of the list and of HAVING, each once."""
    having = node.args.get("having")
    places = [*node.expressions, *([having] if having is not None else [])]
    found: dict[exp.Expr, Expression] = {}
    for part in (it for place in places for it in aggregates_of(place)):
        if part not in found:
            with planner.text.at(part):
                found[part] = fold(makers, part).alias(f"agg${len(found)}")
    return found


def fold(makers: Expressions, node: exp.Expr) -> Expression:
    """The aggregate of an expression; FILTER leaves out rows by making them null."""
    condition = makers.make(node.expression.this) if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node
    name, arguments = inner.name.upper(), inner.expressions
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    arguments = arguments[0].expressions if distinct else arguments
    if len(arguments) != 1:
        raise makers.text.refuse(node, f"{name} takes one argument, not {len(arguments)}")
    if isinstance(arguments[0], exp.Star):
        if name != "COUNT" or distinct:
            raise makers.text.refuse(node, "* stands in COUNT(*) only")
        return count() if condition is None else when(condition, 1).end().count
    value = makers.make(arguments[0])
    if condition is not None:
        value = when(condition, value).end()
    found: Expression = getattr(value, name.lower())
    return found.distinct if distinct else found


def _aggregated(
    planner: Planner,
    node: exp.Select,
    relation: Relation,
    keys: Sequence[_Key],
    folds: dict[exp.Expr, Expression],
    windowed: bool,
) -> tuple[DataFrame, str]:
    """The groups, and how they were made: what is made of them begins anew when they do."""
    frame = relation.frame
    parts = [key.made.alias(key.name) for key in keys]
    wanted = [*folds.values()] or [count().alias("agg$0")]
    if windowed and not parts:
        parts = [lit(0, pa.int64()).alias("key$all")]
    with planner.text.at(node.args.get("group") or node):
        if windowed:
            assert relation.window is not None
            found = frame.window(relation.window).group_by(*parts).agg(*wanted)
        else:
            found = frame.group_by(*parts).agg(*wanted)
    shown = f"{relation.window} " if windowed else ""
    made = f"{shown}of {relation.made} by {', '.join(map(str, parts))}: {', '.join(map(str, wanted))}"
    return name_states(found, "window" if windowed else "group", made), f"({made})"


# --- behind the groups -----------------------------------------------------------------------------------


class _Behind:
    """Keys, aggregates and bounds of windows as columns of the result."""

    def __init__(
        self,
        planner: Planner,
        relation: Relation,
        makers: Expressions,
        keys: Sequence[_Key],
        folds: dict[exp.Expr, Expression],
        windowed: bool,
    ) -> None:
        self._text = planner.text
        self._relation = relation
        self._makers = makers
        self._keys: dict[Node, _Key] = {key.made.node: key for key in keys}
        self._folds = folds
        self._windowed = windowed

    def replace(self, node: exp.Expr) -> Expression | None:
        """The column for a part of the list or of HAVING, if there is one."""
        if node in self._folds and is_aggregate(node):
            return col(str(self._folds[node].name))
        if self._windowed:
            bound = self._bound(node)
            if bound is not None:
                return bound
        if isinstance(node, exp.Literal) or aggregates_of(node):
            return None
        try:
            made = self._makers.make(node).node
        except SqlError:
            return None
        key = self._keys.get(made)
        if key is not None:
            return col(key.name)
        if isinstance(node, exp.Column):
            raise self._text.refuse(
                node, f"{node.sql()} is neither in GROUP BY nor within an aggregate such as MAX({node.sql()})"
            )
        return None

    def _bound(self, node: exp.Expr) -> Expression | None:
        name = ""
        if isinstance(node, exp.Column) and not self._relation.find(node.name, node.table or None):
            name = node.name
        elif isinstance(node, exp.Anonymous):
            name = _BEHIND.get(node.name.upper(), "")
        if name in (WINDOW_START, WINDOW_END):
            return col(name)
        return call("subtract", col(WINDOW_END), lit(_MS)) if name == WINDOW_TIME else None


def _result(
    relation: Relation, frame: DataFrame, made: str, keys: Sequence[_Key], windowed: bool
) -> Relation:
    if windowed and relation.clock:
        return Relation(frame, (), made)
    if windowed:
        return Relation(frame, (), made, {WINDOW_END: 1}, bounds=(WINDOW_START, WINDOW_END))
    names = {key.made.node.name: key.name for key in keys if isinstance(key.made.node, Column)}
    bounds = relation.bounds
    if bounds is not None and all(bound in names for bound in bounds):
        end = names[bounds[1]]
        return Relation(frame, (), made, {end: 1}, bounds=(names[bounds[0]], end))
    return Relation(frame, (), made)
