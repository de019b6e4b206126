"""Where rows go and how: a table by key, a table that is appended to, or a statement of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.database.changes import Changed
from penstock.connectors.database.dialect import Dialect, Target


@dataclass(frozen=True)
class Destination:
    """What writers write to, and what errors call it."""

    dialect: Dialect
    where: str
    columns: Sequence[str]
    apply: Callable[[Any, Changed], None]
    """Carry changes out on a connection; begins and ends no transaction."""


def to_table(dialect: Dialect, target: Target) -> Destination:
    """A table."""

    def apply(connection: Any, changed: Changed) -> None:
        dialect.apply(connection, target, changed.rows, changed.gone)

    return Destination(dialect, f"table {target.table!r} of {dialect.address}", target.columns, apply)


def to_statement(dialect: Dialect, statement: str, columns: Sequence[str]) -> Destination:
    """A statement with a parameter per column, run for every row in the order they came."""

    def apply(connection: Any, changed: Changed) -> None:
        with connection.cursor() as cursor:
            dialect.run_each(cursor, statement, changed.rows)

    return Destination(dialect, f"the statement {statement!r} at {dialect.address}", columns, apply)
