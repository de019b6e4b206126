"""Joins: which kind it is, by what stands in ON and WHERE.

Conditions are taken apart.  Those of one side filter it before the join; equations between the sides are
keys; bounds between the event times of both make it an interval join; equal bounds of windows a window join;
the rest filters what the join gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.dataframe import DataFrame
from penstock.dataframe.states import name_states
from penstock.expressions.face import Expression, col
from penstock.expressions.nodes import Column
from penstock.expressions.types import common_type
from penstock.sql import froms
from penstock.sql.expressions import is_unit
from penstock.sql.relations import Relation
from penstock.sql.time_bounds import Bounds, bounds_of, has_parts

if TYPE_CHECKING:
    from penstock.sql.planner import Planner

_MS = dt.timedelta(milliseconds=1)


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that must all be true."""
    if node is None:
        return []
    inner = node.this if isinstance(node, exp.Where) else node
    if isinstance(inner, exp.And):
        return [*conjuncts(inner.this), *conjuncts(inner.expression)]
    if isinstance(inner, exp.Paren) and isinstance(inner.this, exp.And | exp.Paren | exp.In):
        return conjuncts(inner.this)
    return [inner]


def joined(planner: Planner, node: exp.Select, where: list[exp.Expr]) -> Relation:
    """What FROM gives.  Conditions of WHERE that were used are taken out of ``where``."""
    start = node.args.get("from_") or node.args.get("from")
    if start is None:
        one = exp.Values(expressions=[exp.Tuple(expressions=[exp.Literal.number(0)])])
        return replace(froms.values(planner, one), fields=())
    if start.this.args.get("version") is not None:
        raise planner.text.refuse(start.this, "FOR SYSTEM_TIME AS OF belongs behind JOIN")
    relation = froms.item(planner, start.this)
    joins = node.args.get("joins") or []
    items = [froms.item(planner, join.this) for join in joins]
    for at, join in enumerate(joins):
        # What WHERE says of rows before an outer join on their right would not be said of rows that it adds.
        added = any((later.side or "").upper() in ("RIGHT", "FULL") for later in joins[at + 1 :])
        found = Join(planner, (relation, items[at]), items[at + 1 :], join, [] if added else where)
        relation = found.made()
    return relation


@dataclass
class _Sorted:
    """Conditions by what they are for."""

    keys: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    """Equations: left, right."""
    left: list[exp.Expr] = field(default_factory=list)
    right: list[exp.Expr] = field(default_factory=list)
    rest: list[exp.Expr] = field(default_factory=list)
    time: Bounds = field(default_factory=Bounds)
    timed: list[exp.Expr] = field(default_factory=list)


class Join:
    """One join of a relation with the next item of FROM."""

    def __init__(
        self,
        planner: Planner,
        sides: tuple[Relation, Relation],
        later: Sequence[Relation],
        node: exp.Join,
        where: list[exp.Expr],
    ) -> None:
        self._planner = planner
        self._node = node
        self._where = where
        self._left, self._right = sides
        self._later = later
        self._how = self._kind()
        self._filters_time = self._how == "inner" and (has_parts(self._left) or has_parts(self._right))
        """Whether bounds of event time, which has milliseconds, leave some rows that must be left out."""

    def _kind(self) -> str:
        node = self._node
        self._planner.text.only(node, ("side", "kind", "on", "using", "method"))
        side, kind = (node.side or "").lower(), (node.kind or "").lower()
        if node.method or kind not in ("", "inner", "outer", "cross", "semi", "anti"):
            raise self._refuse(
                f"{node.method or ''} {kind} JOIN is not there; INNER, LEFT, RIGHT and FULL are"
            )
        if kind in ("semi", "anti"):
            return kind
        return side or "inner"

    def _refuse(self, message: str) -> Exception:
        return self._planner.text.refuse(self._node, message)

    def made(self) -> Relation:
        """The relation of both sides."""
        for side in (self._left, self._right):
            if side.window is not None or side.ranking is not None:
                raise self._refuse(
                    "rows of windows are joined once they are grouped; group them in a query within"
                )
        sides = self._sort()
        version = self._node.this.args.get("version")
        self._filter(sides)
        if not sides.keys:
            raise self._refuse(
                "a join needs an equation between both sides, as in ON a.id = b.id: without one every row "
                "meets "
                "every other for ever"
            )
        frame, relation = self._joined(sides, version)
        if sides.rest:
            makers = self._planner.expressions(relation)
            with self._planner.text.at(sides.rest[0]):
                for part in sides.rest:
                    frame = frame.filter(makers.make(part))
        return relation.with_frame(frame)

    # --- conditions --------------------------------------------------------------------------------

    def _conditions(self) -> list[exp.Expr]:
        using = self._node.args.get("using")
        if using:
            raise self._refuse("USING is not there; write ON a.id = b.id")
        own = conjuncts(self._node.args.get("on"))
        if self._how != "inner":
            return own
        plain = (part for part in self._where if part.find(exp.Query) is None)
        here = [part for part in plain if self._sides_of(part) is not None]
        for part in here:
            self._named_once(part)
            self._where.remove(part)
        return own + here

    def _named_once(self, part: exp.Expr) -> None:
        """Refuse columns without a table that a table has which is joined later."""
        for column in part.find_all(exp.Column):
            if not column.table and any(it.find(column.name) for it in self._later):
                raise self._planner.text.refuse(
                    column, f"column {column.name!r} is in several tables; write the table before it"
                )

    def _sort(self) -> _Sorted:
        found = _Sorted()
        for part in self._conditions():
            sides = self._sides_of(part)
            if sides is None:
                raise self._planner.text.refuse(part, f"{part.sql()} is about tables that are not joined yet")
            pair = self._equation(part)
            if pair is not None:
                found.keys.append(pair)
            elif sides == {"left"} or (not sides and self._how == "right"):
                found.left.append(part)
            elif sides == {"right"} or (not sides and self._how != "full"):
                found.right.append(part)
            else:
                self._between(part, found)
        if self._filters_time or not found.time.complete:
            found.rest += found.timed
        if not found.time.complete:
            found.time = Bounds()
        return found

    def _between(self, part: exp.Expr, found: _Sorted) -> None:
        bounds = bounds_of(part, self._left, self._right, self._planner, self._filters_time)
        if bounds is None:
            found.rest.append(part)
        else:
            found.time = found.time & bounds
            found.timed.append(part)

    def _sides_of(self, node: exp.Expr) -> set[str] | None:
        """Which sides a condition speaks of; ``None`` if of others, too."""
        found = set()
        for column in (it for it in node.find_all(exp.Column) if not is_unit(it)):
            both = (("left", self._left), ("right", self._right))
            named = [name for name, side in both if _has(side, column, by_table=True)]
            sides = named or [name for name, side in both if _has(side, column, by_table=False)]
            if not sides:
                return None
            if len(sides) > 1:
                raise self._planner.text.refuse(
                    column, f"column {column.name!r} is on both sides of the join; write the table before it"
                )
            found.add(sides[0])
        return found

    def _equation(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        if not isinstance(node, exp.EQ):
            return None
        pair = (node.this, node.expression)
        sides = [self._sides_of(part) for part in pair]
        if sides == [{"left"}, {"right"}]:
            return pair
        return (pair[1], pair[0]) if sides == [{"right"}, {"left"}] else None

    def _filter(self, sides: _Sorted) -> None:
        """Conditions of one side, before the join; an outer side keeps its rows whatever ON says."""
        for name, kept, parts in (
            ("_left", self._how in ("left", "full", "anti"), sides.left),
            ("_right", self._how in ("right", "full"), sides.right),
        ):
            if parts and kept:
                raise self._planner.text.refuse(
                    parts[0],
                    f"{parts[0].sql()} in ON of a {self._how.upper()} JOIN is about the side that is kept; "
                    "join with a query that says it as CASE, or filter in WHERE",
                )
            relation: Relation = getattr(self, name)
            makers = self._planner.expressions(relation)
            for part in parts:
                with self._planner.text.at(part):
                    relation = relation.with_frame(relation.frame.filter(makers.make(part)))
            setattr(self, name, relation)
        if sides.rest and self._how != "inner":
            raise self._planner.text.refuse(
                sides.rest[0],
                f"{sides.rest[0].sql()} in ON of a {self._how.upper()} JOIN: there can be equations, "
                "bounds of "
                "event time and conditions of the other side; filter behind the join in WHERE",
            )

    # --- the join -----------------------------------------------------------------------------------

    def _joined(self, sides: _Sorted, version: exp.Expr | None) -> tuple[DataFrame, Relation]:
        left, right = self._left, _apart(self._right, self._left)
        pairs: list[tuple[str, str]] = []
        shown: list[str] = []
        # Columns of earlier joins stay: what this one adds has other names than all that are there.
        mark = "$"
        while any(mark in name for name in (*left.frame.columns, *right.frame.columns)):
            mark += "$"
        for at, (one, other) in enumerate(sides.keys):
            again = [{pair[side] for pair in pairs} for side in (0, 1)]
            left, left_key, mine = _keyed(self._planner, left, one, f"on{mark}{at}", again[0])
            right, right_key, others = _keyed(
                self._planner, right, other, f"on{mark}{at}{mark}right", again[1]
            )
            shown.append(f"{mine} = {others}")
            with self._planner.text.at(one):
                left, left_key, right, right_key = _met(left, left_key, right, right_key, f"as{mark}{at}")
            pairs.append((left_key, right_key))
        on = dict(pairs)
        if self._how in ("right", "full"):
            left = _copied(left, on.keys(), f"{mark}left")
        if self._how in ("left", "full"):
            right = _copied(right, on.values(), f"{mark}right")
        text = self._planner.text
        how, frame = self._how, left.frame
        made = f"({left.made} {how} join {right.made} on {', '.join(shown)})"
        with text.at(self._node):
            if version is not None:
                found = self._versioned(left, right, on, version)
                kind = "temporal"
            elif sides.time.lower is not None and sides.time.upper is not None:
                lower, upper = sides.time.lower, sides.time.upper
                made += f" between {lower} and {upper}"
                found = frame.join(right.frame, on=on, how=how, between=(lower * _MS, upper * _MS))
                kind = "interval"
            else:
                found = frame.join(right.frame, on=on, how=how)
                kind = "join"
        found = name_states(found, kind, made)
        return found, self._combined(found, left, right, on, made)

    def _versioned(self, left: Relation, right: Relation, on: dict[str, str], version: exp.Expr) -> DataFrame:
        at = version.expression
        text = self._planner.text
        if self._how not in ("inner", "left"):
            raise self._refuse("a join FOR SYSTEM_TIME AS OF is INNER or LEFT")
        place, _ = left.resolve(at, text) if isinstance(at, exp.Column) else (None, [])
        if place is None or (place.column is not None and left.times.get(place.column) != 0):
            raise text.refuse(
                at, "FOR SYSTEM_TIME AS OF names the event time of the left side, or its PROCTIME()"
            )
        if place.column is None:
            looked: DataFrame = left.frame.join_lookup(right.frame, on=on, how=self._how)
            return looked
        found: DataFrame = left.frame.join_temporal(right.frame, on=on, how=self._how)
        return found

    def _combined(
        self, frame: DataFrame, left: Relation, right: Relation, on: dict[str, str], made: str
    ) -> Relation:
        """Names for what the join gives: keys have their left names."""
        if self._how in ("semi", "anti"):
            times = left.times if frame.has_event_time else {}
            return replace(left.with_frame(frame), made=made, times=times)
        keys = {other: one for one, other in on.items()}
        there = set(frame.columns)
        outer_left, outer_right = self._how in ("right", "full"), self._how in ("left", "full")
        fields = [replace(it, nullable=it.nullable or outer_left) for it in left.fields]
        for it in right.fields:
            column = it.column if it.column is None or it.column in there else keys.get(it.column)
            fields.append(replace(it, column=column, nullable=it.nullable or outer_right))
        bounds = left.bounds if left.bounds is not None and right.bounds is not None else None
        if bounds is not None and not all(bound in on for bound in bounds):
            bounds = None
        times = {bounds[1]: 1} if bounds is not None else {}
        return Relation(frame, tuple(fields), made, times, bounds=bounds)


def _has(relation: Relation, node: exp.Column, by_table: bool) -> bool:
    """Whether it is a column of the relation: ``table.column``, or a column and fields within it."""
    parts = [part.name for part in node.parts]
    if by_table:
        return len(parts) > 1 and bool(relation.find(parts[1], parts[0]))
    tables = {it.table for it in relation.fields}
    return bool(relation.find(parts[0])) and (len(parts) == 1 or parts[0] not in tables)


def _apart(right: Relation, left: Relation) -> Relation:
    """The right side with names that the left has not."""
    taken = set(left.frame.columns)
    names: dict[str, str] = {}
    for name in right.frame.columns:
        new, at = name, 1
        while new in taken:
            at += 1
            new = f"{name}${at}"
        names[name] = new
        taken.add(new)
    if all(old == new for old, new in names.items()):
        return right
    frame = right.frame.rename(names)
    fields = tuple(it if it.column is None else replace(it, column=names[it.column]) for it in right.fields)
    bounds = None if right.bounds is None else (names[right.bounds[0]], names[right.bounds[1]])
    times = {names[name]: past for name, past in right.times.items()}
    return replace(right, frame=frame, fields=fields, bounds=bounds, times=times)


def _met(
    left: Relation, left_key: str, right: Relation, right_key: str, name: str
) -> tuple[Relation, str, Relation, str]:
    """Both sides with keys of one type: what is compared meets in the common one."""
    kinds = [it.frame.schema.field(key).type for it, key in ((left, left_key), (right, right_key))]
    kind = common_type(*kinds)
    if not kinds[0].equals(kind):
        left = left.with_frame(left.frame.with_column(name, col(left_key).cast(kind)))
        left_key = name
    if not kinds[1].equals(kind):
        right = right.with_frame(right.frame.with_column(f"{name}right", col(right_key).cast(kind)))
        right_key = f"{name}right"
    return left, left_key, right, right_key


def _copied(relation: Relation, keys: Iterable[str], side: str) -> Relation:
    """With copies of its keys: they are null in rows that only the other side has, where keys are not."""
    copies = {key: f"{key}{side}" for key in keys if any(it.column == key for it in relation.fields)}
    if not copies:
        return relation
    frame = relation.frame.with_columns({copy: col(key) for key, copy in copies.items()})
    fields = tuple(replace(it, column=copies.get(str(it.column), it.column)) for it in relation.fields)
    return replace(relation, frame=frame, fields=fields)


def _keyed(
    planner: Planner, relation: Relation, node: exp.Expr, name: str, taken: set[str]
) -> tuple[Relation, str, str]:
    """The relation with a key as a column, a copy if it is a key already (``taken``), and how it is made."""
    with planner.text.at(node):
        made: Expression = planner.expressions(relation).make(node)
        if isinstance(made.node, Column) and made.node.name not in taken:
            return relation, made.node.name, str(made)
        return relation.with_frame(relation.frame.with_column(name, made)), name, str(made)
