"""What is wrong with a statement, and where: line, column, and the nearest thing that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from penstock.core.errors import ConfigError
from penstock.expressions.suggest import nearest


class SqlError(ConfigError):
    """A statement that cannot be used; ``line`` and ``column`` say where, from one, if that is known."""

    code = "SQL"

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{where}{message}")
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (str(self), self.line, self.column))


def _again(text: str, line: int | None, column: int | None) -> SqlError:
    error = SqlError(text)
    error.line, error.column = line, column
    return error


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for lists of names."""
    return tuple(text.split())


def start_of(node: exp.Expr) -> int | None:
    """Where a part of a statement begins in its text: where the first of its words does."""
    places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(places, default=None)


class Text:
    """The text of statements, of which errors quote places."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def refuse(self, node: exp.Expr | None, message: str) -> SqlError:
        """The error for a part of the statement; to be raised."""
        start = None if node is None else start_of(node)
        return SqlError(message) if start is None else SqlError(message, *self.place(start))

    def place(self, start: int) -> tuple[int, int]:
        """Line and column, from one, of an offset."""
        before = self.sql[:start]
        return before.count("\n") + 1, start - before.rfind("\n")

    def only(self, node: exp.Expr, known: Iterable[str]) -> None:
        """Refuse a part that says more than is read of it: nothing of a statement is passed over."""
        for name, value in node.args.items():
            if value and name not in known and name not in ("this", "expression", "expressions"):
                place = value[0] if isinstance(value, list) else value
                found = place if isinstance(place, exp.Expr) else node
                shown = found.sql()[:60] if isinstance(place, exp.Expr) else name.replace("_", " ").upper()
                raise self.refuse(found, f"{shown} is not there, in {node.key.upper()}")

    @contextmanager
    def at(self, node: exp.Expr) -> Iterator[None]:
        """Errors of the DataFrames in this block get the place of a part of the statement."""
        try:
            yield
        except SqlError:
            raise
        except ConfigError as error:
            raise self.refuse(node, str(error)) from error

    def of_parser(self, error: ParseError | TokenError, keywords: tuple[str, ...]) -> SqlError:
        """What the parser says, in one line."""
        if isinstance(error, TokenError) or not error.errors:
            return SqlError(f"this cannot be read as SQL: {str(error).splitlines()[0]}")
        found = error.errors[0]
        what, line, column = found["description"], found["line"], found["col"]
        word = str(found["highlight"] or "")
        if line is None or not word:
            return SqlError(f"{what}; the statement ends too early")
        hint = nearest(word.upper(), keywords) if word.isidentifier() and len(word) > 2 else ""
        hint = "" if repr(word.upper()) in hint else hint
        return SqlError(f"{what} at {word!r}{hint}", line, max(1, column - len(word) + 1))


def known_function(name: str, known: Any) -> str:
    """The end of a message about a function that is not there."""
    return nearest(name.upper(), known) or "; see docs/guides/sql.md for those that there are"
