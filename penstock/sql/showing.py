"""What a statement came to, line by line, as it comes: for the prompt and for ``Table.execute().print()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from penstock.dataframe import DataFrame
from penstock.sql.printing import framed
from penstock.sql.session import Outcome

_OP = "op"


def shown(outcome: Outcome) -> Iterator[str]:
    """The lines of an outcome; those of a query that does not end come until the reader stops reading."""
    if outcome.frame is not None:
        return rows_of(outcome.frame)
    if outcome.rows is not None:
        rows = outcome.rows
        if list(rows[0]) == ["plan"]:
            return (str(row["plan"]) for row in rows)
        return framed(list(rows[0]), (tuple(row.values()) for row in rows))
    return iter([f"{outcome.said}."])


def rows_of(frame: DataFrame) -> Iterator[str]:
    """The rows of a query that runs now; if they change, with what becomes of each."""
    mode = getattr(frame, "changes", None)
    if mode is not None and mode.name != "APPEND":
        return framed([_OP, *frame.columns], _changes(frame))
    return framed(frame.columns, _rows(frame))


def _rows(frame: DataFrame) -> Iterator[list[Any]]:
    with closing(frame.execute_and_collect()) as found:  # type: ignore[type-var]
        for row in found:
            yield list(row)


def _changes(frame: Any) -> Iterator[list[Any]]:
    with closing(frame.iter_rows(include_row_kind=True)) as found:
        for kind, row in found:
            yield [str(kind), *row.values()]
