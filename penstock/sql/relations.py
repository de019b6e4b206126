"""What FROM gives: a DataFrame, the names by which SQL knows its columns, and what is known of its time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.core.error_codes import Code
from penstock.dataframe import DataFrame
from penstock.dataframe.windows import Window
from penstock.expressions.face import Expression, call, col
from penstock.expressions.nodes import Call, Column, Literal, Node
from penstock.expressions.suggest import nearest
from penstock.sql.errors import Text

WINDOW_START, WINDOW_END, WINDOW_TIME = "window_start", "window_end", "window_time"


@dataclass(frozen=True)
class Field:
    """A column as SQL sees it."""

    table: str | None
    name: str
    column: str | None
    """Its name in the DataFrame; ``None``: the time of the clock (PROCTIME), which is no column."""
    nullable: bool = True


@dataclass(frozen=True)
class Ranking:
    """``ROW_NUMBER() OVER (...) AS name``, which waits for ``WHERE name <= n`` around it."""

    name: str
    partition: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    """Columns, and whether the largest come first."""
    node: exp.Expr
    window: Window | None = None
    """The window within which it counts, if that is one of rows that were not grouped."""
    bounds: tuple[tuple[str, str], ...] = ()
    """Names of the list for the bounds of that window."""


@dataclass(frozen=True)
class Relation:
    """A DataFrame with names.  ``made`` says how it was made, in words that stay the same between runs."""

    frame: DataFrame
    fields: tuple[Field, ...]
    made: str
    times: Mapping[str, int] = field(default_factory=dict)
    """Columns that hold the event time of their row, and by how many milliseconds they are past it."""
    window: Window | None = None
    """Rows that are to be cut into windows; they have the columns of windows only once they are grouped."""
    clock: bool = False
    """Whether these windows are of the clock's time."""
    bounds: tuple[str, str] | None = None
    """The columns with beginning and end of the window, if its rows are results of windows."""
    ranking: Ranking | None = None

    @staticmethod
    def of(frame: DataFrame, table: str | None, made: str, times: Iterable[str] = ()) -> Relation:
        """All columns of a DataFrame, under the name of a table."""
        fields = tuple(Field(table, it.name, it.name, it.nullable) for it in frame.schema)
        return Relation(frame, fields, made, dict.fromkeys(times, 0))

    def called(self, table: str) -> Relation:
        """The same under another name."""
        return replace(self, fields=tuple(replace(it, table=table) for it in self.fields))

    def with_frame(self, frame: DataFrame) -> Relation:
        """The same columns of another DataFrame."""
        return replace(self, frame=frame)

    @property
    def names(self) -> list[str]:
        """The names of its columns, for messages."""
        return [it.name for it in self.fields]

    def find(self, name: str, table: str | None = None) -> list[Field]:
        """The columns of this name."""
        return [it for it in self.fields if it.name == name and table in (None, it.table)]

    def resolve(self, node: exp.Column, text: Text) -> tuple[Field, list[str]]:
        """The column that a name means, and the fields within it that follow."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1:
            found = self.find(parts[1], parts[0])
            if found:
                return _only(found, node, text), parts[2:]
        found = self.find(parts[0])
        if found:
            return _only(found, node, text), parts[1:]
        if self.window is not None and parts[-1] in (WINDOW_START, WINDOW_END, WINDOW_TIME):
            raise text.refuse(
                node,
                f"{parts[-1]} is there behind GROUP BY {WINDOW_START}, {WINDOW_END}: rows alone are not "
                "given "
                "their windows",
            )
        tables = {it.table for it in self.fields if it.table is not None}
        if len(parts) > 1 and parts[0] not in tables:
            raise text.refuse(node, f"there is no table {parts[0]!r} here{nearest(parts[0], tables)}")
        known = [it.name for it in self.fields if len(parts) == 1 or it.table == parts[0]]
        raise text.refuse(
            node, f"there is no column {parts[-1]!r}{nearest(parts[-1], known)}", Code.UNKNOWN_COLUMN
        )


def _only(found: Sequence[Field], node: exp.Column, text: Text) -> Field:
    if len(found) > 1:
        choices = " or ".join(f"{it.table}.{it.name}" for it in found)
        raise text.refuse(node, f"column {found[0].name!r} is in several tables; write {choices}")
    return found[0]


def field_of(column: Field, within: Sequence[str]) -> Expression:
    """The expression of a column and fields within it."""
    assert column.column is not None
    found = col(column.column)
    for name in within:
        found = call("field", found, name)
    return found


def moment_of(node: Node, times: Mapping[str, int]) -> int | None:
    """How far past the event time of its row an expression is, if that is the same for all rows."""
    if isinstance(node, Column):
        return times.get(node.name)
    if isinstance(node, Call) and node.function in ("add", "subtract"):
        first, second = node.arguments
        past = moment_of(first, times)
        if past is not None and isinstance(second, Literal) and isinstance(second.value, dt.timedelta):
            length, finer = divmod(second.value, dt.timedelta(milliseconds=1))
            if not finer:
                return past + length if node.function == "add" else past - length
    return None
