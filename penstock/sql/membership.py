"""``WHERE x IN (SELECT y FROM ...)``: rows that meet one of a query's, which is a semi-join.

Only as a condition of WHERE by itself, or joined to others by AND: there false and unknown come to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql import froms
from penstock.sql.joins import Join
from penstock.sql.relations import Relation

if TYPE_CHECKING:
    from penstock.sql.planner import Planner


def members(planner: Planner, relation: Relation, where: list[exp.Expr]) -> Relation:
    """The rows for which these conditions are true; they are taken out of ``where``."""
    asked = [part for part in where if isinstance(part, exp.In) and part.args.get("query") is not None]
    for at, part in enumerate(asked):
        where.remove(part)
        planner.text.only(part, ("query",))
        relation = _met(planner, relation, part, f"in${at}")
    return relation


def _met(planner: Planner, relation: Relation, part: exp.In, name: str) -> Relation:
    found = planner.whole(part.args["query"])
    if len(found.fields) != 1:
        raise planner.text.refuse(part, f"the query within IN has one column, not {len(found.fields)}")
    column = exp.to_identifier(name)
    alias = exp.TableAlias(this=column, columns=[column])
    listed = froms.renamed(planner, found, alias, part)
    on = exp.EQ(this=part.this, expression=exp.column(name, table=name))
    join = exp.Join(this=part.args["query"], kind="SEMI", on=on)
    join.parent = part.parent  # for the place of what is refused
    return Join(planner, (relation, listed), [], join, []).made()
