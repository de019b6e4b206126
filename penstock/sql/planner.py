"""Queries become DataFrames: FROM, WHERE, GROUP BY, HAVING, the list of SELECT, in this order.

No engine stands behind it but that of DataFrames: each clause is a method of theirs, and a clause without
one is refused where it stands.  What is kept of a relation while it passes the clauses is in
:mod:`penstock.sql.relations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from penstock.dataframe import DataFrame
from penstock.dataframe.states import name_states
from penstock.expressions.face import Expression, col
from penstock.expressions.nodes import Column
from penstock.expressions.types import common_type
from penstock.sql import froms, grouping, joins, membership, over, ranking
from penstock.sql.errors import Text
from penstock.sql.expressions import Expressions, PythonFunction
from penstock.sql.relations import Field, Relation, moment_of


class Names(Protocol):
    """Where tables are found."""

    def relation(self, name: str) -> Relation | None:
        """What a name stands for."""
        ...

    def near(self, name: str) -> str:
        """The end of a message about a name that is not there."""
        ...


_REFUSED = {
    "windows": "WINDOW w AS (...) is not there; write the window behind OVER",
    "qualify": "QUALIFY is not there; write the query within another one, with WHERE rn <= 3 around it",
    "connect": "CONNECT BY is not there",
    "match": "MATCH_RECOGNIZE is not there; there are patterns on streams, see docs/guides/patterns.md",
    "laterals": "LATERAL is not there; flat_map on to_data_stream() makes several rows of one",
    "offset": "OFFSET is not there: a stream has no order; ROW_NUMBER() with WHERE rn BETWEEN gives ranks",
    "cluster": "CLUSTER BY is not there",
    "distribute": "DISTRIBUTE BY is not there",
    "sort": "SORT BY is not there; write ROW_NUMBER() OVER (ORDER BY ...) with WHERE rn <= n around it",
    "pivots": "PIVOT is not there; write SUM(x) FILTER (WHERE kind = 'a')",
    "sample": "TABLESAMPLE is not there; filter by MOD(id, 100) = 0",
}
_CLAUSES = ["from_", "joins", "where", "group", "having", "distinct", "order", "limit", "with_"]
_SETS: dict[type[exp.Expr], str] = {
    exp.Intersect: "INTERSECT is not there; join the queries on all their columns",
    exp.Except: "EXCEPT is not there; a LEFT JOIN with WHERE b.id IS NULL has the rows without a partner",
}


class Planner:
    """Plans the queries of one text, against the tables and functions that there are."""

    def __init__(self, text: Text, names: Names, functions: Mapping[str, PythonFunction]) -> None:
        self.text = text
        self.functions = functions
        self._names = names
        self._named: dict[str, Relation] = {}
        """Queries of WITH; each is planned once, so its steps are there once."""

    def query(self, node: exp.Expr) -> Relation:
        """The relation of a query; it has no name."""
        outer = dict(self._named)
        with_ = node.args.get("with_") or node.args.get("with")
        if with_ is not None:
            self._with(with_)
        try:
            if isinstance(node, exp.Select):
                return self._select(node)
            if isinstance(node, exp.Union):
                return self._union(node)
            if isinstance(node, exp.Subquery | exp.Paren):
                self.text.only(node, ("alias", "with_"))
                return self.query(node.this)
            if isinstance(node, exp.Values):
                return froms.values(self, node)
            raise self.text.refuse(node, _SETS.get(type(node), f"{node.sql()[:60]} is no query"))
        finally:
            self._named = outer

    def whole(self, node: exp.Expr) -> Relation:
        """The relation of a query that nothing stands around which would say how many ranks are wanted."""
        return ranking.settled(self, self.query(node))

    def table(self, node: exp.Table) -> Relation:
        """A table, a view or a query of WITH."""
        self.text.only(node, ("db", "catalog", "alias", "version"))
        name = self.text.name(node)
        found = self._named.get(name) if not node.db else None
        if found is None:
            with self.text.at(node):
                found = self._names.relation(name)
        if found is None:
            raise self.text.refuse(node, f"there is no table {name!r}{self._names.near(name)}")
        return found.called(name)

    def expressions(self, relation: Relation) -> Expressions:
        """The maker of expressions over a relation."""
        return Expressions(relation, self.text, self.functions)

    # --- the whole ---------------------------------------------------------------------------------

    def _with(self, node: exp.With) -> None:
        if node.args.get("recursive"):
            raise self.text.refuse(node, "WITH RECURSIVE is not there: a stream does not end")
        names = set[str]()
        for part in node.expressions:
            if part.alias in names:
                raise self.text.refuse(part, f"two queries of WITH are called {part.alias!r}")
            names.add(part.alias)
            found = self.query(part.this)
            self._named[part.alias] = froms.renamed(self, found, part.args.get("alias"), part)

    def _union(self, node: exp.Union) -> Relation:
        self.text.only(node, ("with_", "distinct"))
        left, right = self.whole(node.this), self.whole(node.expression)
        if len(left.fields) != len(right.fields):
            raise self.text.refuse(
                node.expression,
                f"UNION needs as many columns on both sides: {len(left.fields)} are not {len(right.fields)}",
            )
        if any(it.column is None for it in (*left.fields, *right.fields)):
            raise self.text.refuse(
                node, "the clock's time does not go through UNION; add PROCTIME() behind it"
            )
        with self.text.at(node.expression):
            frames = _of_one_schema(left, right)
            frame = frames[0].union(frames[1])
        times = {
            name: past
            for name, past in left.times.items()
            if right.times.get(_twin(left, right, name)) == past
        }
        made = f"({left.made} + {right.made})"
        found = Relation(frame, _plain(left.fields, right.fields), made, times)
        if node.args.get("distinct"):
            frame = name_states(found.frame.drop_duplicates(*frame.columns), "distinct", made)
            return found.with_frame(frame)
        return found

    def _select(self, node: exp.Select) -> Relation:
        for clause, message in _REFUSED.items():
            if node.args.get(clause):
                raise self.text.refuse(_somewhere(node.args[clause], node), message)
        self.text.only(node, _CLAUSES)
        if not node.expressions:
            raise self.text.refuse(node, "SELECT is followed by columns, or by *")
        node = ranking.with_orders(self, node)
        where = joins.conjuncts(node.args.get("where"))
        relation = joins.joined(self, node, where)
        relation = ranking.ranked(self, relation, where)
        relation = membership.members(self, relation, where)
        if where:
            with self.text.at(where[0]):
                makers = self.expressions(relation)
                condition = makers.make(where[0])
                for more in where[1:]:
                    condition = condition & makers.make(more)
                relation = relation.with_frame(relation.frame.filter(condition))
        found = (
            grouping.grouped(self, node, relation) if grouping.groups(node) else self._listed(node, relation)
        )
        if node.args.get("distinct"):
            found = self._distinct(node, found)
        return ranking.ordered(self, node, found)

    def _distinct(self, node: exp.Select, relation: Relation) -> Relation:
        if node.args["distinct"].args.get("on"):
            raise self.text.refuse(
                node, "DISTINCT ON is not there; ROW_NUMBER() with WHERE rn = 1 keeps one row"
            )
        with self.text.at(node):
            frame = relation.frame.drop_duplicates(*relation.frame.columns)
            made = f"distinct({relation.made}: {', '.join(relation.names)})"
            return relation.with_frame(name_states(frame, "distinct", made))

    def _listed(self, node: exp.Select, relation: Relation) -> Relation:
        over_rows = any(isinstance(part.unalias(), exp.Window) for part in node.expressions)
        special = ranking.numbered(self, node, relation) if over_rows else None
        if special is not None:
            return special
        if relation.window is not None:
            raise self.text.refuse(
                node,
                "windows without GROUP BY window_start, window_end are not there: rows alone are not "
                "given their "
                "windows",
            )
        if over_rows:
            return over.computed(self, node, relation)
        return self.projected(node, relation, self.expressions(relation))

    # --- the list of SELECT --------------------------------------------------------------------------

    def projected(self, node: exp.Select, relation: Relation, makers: Expressions) -> Relation:
        """The columns that the list asks for."""
        return project(self.text, listed(self.text, node, relation, makers), relation)


Listed = tuple[str, Expression | None, exp.Expr]
"""A name, its expression (``None``: the clock's time), and where it stands."""


def listed(text: Text, node: exp.Select, relation: Relation, makers: Expressions) -> list[Listed]:
    """The list of SELECT, with ``*`` written out and a name for everything."""
    found: list[Listed] = []
    for at, part in enumerate(node.expressions):
        star = star_of(part)
        if star is not None:
            every = _all(text, part, star, relation)
            found += [(it.name, None if it.column is None else col(it.column), part) for it in every]
            continue
        inner = part.unalias()
        name = part.alias or (inner.name if isinstance(inner, exp.Column | exp.Dot) else f"EXPR${at}")
        if is_clock(inner, relation):
            found.append((name, None, part))
            continue
        with text.at(part):
            found.append((name, makers.make(inner), part))
    return found


def project(text: Text, wanted: Sequence[Listed], relation: Relation) -> Relation:
    """A relation of these columns; columns that hold times or bounds of windows are still known for that."""
    names = [name for name, _, _ in wanted]
    for name, _, part in reversed(wanted):
        if names.count(name) > 1:
            raise text.refuse(part, f"two columns are called {name!r}; name one with AS")
    columns = [(name, made, part) for name, made, part in wanted if made is not None]
    if not columns:
        raise text.refuse(wanted[0][2], "a list of SELECT with the clock's time alone has no column")
    with text.at(columns[0][2]):
        frame = relation.frame.select(*(made.alias(name) for name, made, _ in columns))
    for name, _, part in columns:
        if pa.types.is_null(frame.schema.field(name).type):
            raise text.refuse(part, f"column {name!r} is NULL without a type; write CAST(NULL AS BIGINT)")
    source = {name: made.node.name for name, made, _ in columns if isinstance(made.node, Column)}
    moments = {name: moment_of(made.node, relation.times) for name, made, _ in columns}
    times = {name: past for name, past in moments.items() if past is not None}
    bounds = _bounds(relation.bounds, source)
    nullable = {it.column: it.nullable for it in relation.fields}
    fields = tuple(
        Field(None, name, None if made is None else name, nullable.get(source.get(name), True))
        for name, made, _ in wanted
    )
    return Relation(frame, fields, relation.made, times, bounds=bounds)


def _bounds(bounds: tuple[str, str] | None, source: Mapping[str, str]) -> tuple[str, str] | None:
    if bounds is None:
        return None
    found = [next((name for name, of in source.items() if of == bound), None) for bound in bounds]
    return None if None in found else (str(found[0]), str(found[1]))


def star_of(part: exp.Expr) -> exp.Expr | None:
    """The ``*`` of ``*`` or ``t.*``."""
    if isinstance(part, exp.Star):
        return part
    return part.this if isinstance(part, exp.Column) and isinstance(part.this, exp.Star) else None


def _all(text: Text, part: exp.Expr, star: exp.Expr, relation: Relation) -> list[Field]:
    if any(star.args.get(more) for more in ("except_", "except", "replace", "rename")):
        raise text.refuse(part, "* with EXCEPT or REPLACE is not there; name the columns")
    table = part.table if isinstance(part, exp.Column) else ""
    found = [it for it in relation.fields if table in ("", it.table)]
    if not found:
        raise text.refuse(part, f"there is no table {table!r} here")
    return found


def is_clock(node: exp.Expr, relation: Relation) -> bool:
    """Whether it is ``PROCTIME()``, or a column that is."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() == "PROCTIME"
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return False
    found = relation.find(node.name, node.table or None)
    return len(found) == 1 and found[0].column is None


def _plain(left: tuple[Field, ...], right: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(
        replace(one, table=None, nullable=one.nullable or other.nullable)
        for one, other in zip(left, right, strict=True)
    )


def _twin(left: Relation, right: Relation, column: str) -> str:
    places = [it.column for it in left.fields]
    return str(right.fields[places.index(column)].column) if column in places else ""


def _of_one_schema(left: Relation, right: Relation) -> tuple[DataFrame, DataFrame]:
    """Both with the names of the left and, where types differ, the common one."""
    names = [it.name for it in left.fields]
    kinds = [
        common_type(_type(left, one), _type(right, other))
        for one, other in zip(left.fields, right.fields, strict=True)
    ]
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def cast(relation: Relation) -> DataFrame:
        if relation.frame.schema.equals(schema):
            return relation.frame
        chosen = zip(relation.fields, kinds, names, strict=True)
        return relation.frame.select(*(_as(relation, it, kind).alias(name) for it, kind, name in chosen))

    return cast(left), cast(right)


def _type(relation: Relation, column: Field) -> pa.DataType:
    return relation.frame.schema.field(column.column).type


def _as(relation: Relation, column: Field, kind: pa.DataType) -> Expression:
    found = col(str(column.column))
    # A cast, even to the same type, also drops that a column is never null: both sides must say the same.
    return found if _type(relation, column).equals(kind) and _nullable(relation, column) else found.cast(kind)


def _nullable(relation: Relation, column: Field) -> bool:
    return bool(relation.frame.schema.field(column.column).nullable)


def _somewhere(clause: object, node: exp.Expr) -> exp.Expr:
    first = clause[0] if isinstance(clause, list) else clause
    return first if isinstance(first, exp.Expr) else node
