"""``EXPLAIN``: the steps of a statement, and by which ids savepoints know its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.core import options
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.sql.errors import Text

if TYPE_CHECKING:
    from penstock.sql.session import Session


def explained(session: Session, node: exp.Expr, text: Text) -> Iterator[str]:
    """The lines; the session's own environment stays as it is."""
    query = node.expression if isinstance(node, exp.Insert) else node
    if not isinstance(query, exp.Query):
        raise text.refuse(node, "EXPLAIN is followed by a query or an INSERT")
    relation = session.query(query, text)
    env = Env(session.env._configuration)
    if env.configuration().get(options.DEFAULT_PARALLELISM) is None:
        env.set_parallelism(1)
    relation.frame._in(env).print()
    yield from env.explain().splitlines()
    nodes = [it for it in env.graph.nodes if it.stateful]
    if nodes:
        yield "State, by the ids that savepoints know:"
    for it in nodes:
        yield f"  {it.uid or '(by its place)'}: {it.description or it.name}"
