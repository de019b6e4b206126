"""What is wrong with a statement, and where: line, column, and the nearest thing that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.expressions.suggest import nearest

_CATALOG, _DATABASE = "default_catalog", "default_database"


class SqlError(ConfigError):
    """A statement that cannot be used; ``line`` and ``column`` say where, from one, if that is known."""

    code = Code.SQL

    def __init__(
        self, message: str, line: int | None = None, column: int | None = None, code: str | None = None
    ) -> None:
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{where}{message}", code=code)
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (str(self), self.line, self.column, self.code))


def _again(text: str, line: int | None, column: int | None, code: str) -> SqlError:
    error = SqlError(text, code=code)
    error.line, error.column = line, column
    return error


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for lists of names."""
    return tuple(text.split())


def start_of(node: exp.Expr | None) -> int | None:
    """Where a part of a statement begins in its text: where the first of its words does.

    The parser keeps the places of names and constants only; a part without any is within one that has some.
    """
    while node is not None:
        places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if places:
            found: int = min(places)
            return found
        node = node.parent
    return None


class Text:
    """The text of statements, of which errors quote places."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def refuse(self, node: exp.Expr | None, message: str, code: str | None = None) -> SqlError:
        """The error for a part of the statement; to be raised."""
        start = None if node is None else start_of(node)
        line, column = (None, None) if start is None else self.place(start)
        return SqlError(message, line, column, code)

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

    def name(self, node: exp.Expr) -> str:
        """The name of a table; there are no catalogs and databases but Flink's default ones."""
        catalog, database = node.text("catalog"), node.text("db")
        if database not in ("", _DATABASE) or catalog not in ("", _CATALOG):
            raise self.refuse(
                node, f"there is no {'.'.join(filter(None, (catalog, database)))!r}: tables have plain names"
            )
        return node.name

    @contextmanager
    def at(self, node: exp.Expr) -> Iterator[None]:
        """Errors of the DataFrames in this block get the place of a part of the statement."""
        try:
            yield
        except SqlError:
            raise
        except ConfigError as error:
            raise self.refuse(node, str(error), None if error.code == Code.CONFIG else error.code) from error

    def of_parser(self, error: ParseError | TokenError, keywords: tuple[str, ...]) -> SqlError:
        """What the parser says, in one line."""
        if isinstance(error, TokenError) or not error.errors:
            start = self._open_quote()
            if start is not None:
                opened = "/*" if self.sql.startswith("/*", start) else self.sql[start]
                return SqlError(f"what begins with {opened} here does not end", *self.place(start))
            return SqlError(f"this cannot be read as SQL: {str(error).splitlines()[0]}")
        found = error.errors[0]
        what, line, column = found["description"], found["line"], found["col"]
        what, _, got = what.partition(" but got <Token")
        word = str(found["highlight"] or "")
        if line is None or not word or "SENTINEL" in got:
            return SqlError(f"{what}; the statement ends too early")
        if "option" in what:  # what stands there may be a password
            return SqlError(what, line, max(1, column - len(word) + 1))
        hint = nearest(word.upper(), keywords) if word.isidentifier() and len(word) > 2 else ""
        hint = "" if repr(word.upper()) in hint else hint
        return SqlError(f"{what} at {word!r}{hint}", line, max(1, column - len(word) + 1))

    def _open_quote(self) -> int | None:
        """Where a text, a name in backticks or a comment begins that does not end."""
        at = 0
        while at < len(self.sql):
            opened = next((it for it in ("'", "`", "--", "/*") if self.sql.startswith(it, at)), None)
            if opened is not None:
                end = self.sql.find({"--": "\n", "/*": "*/"}.get(opened, opened), at + len(opened))
                if end < 0:
                    return None if opened == "--" else at
                at = end + (opened == "/*")
            at += 1
        return None


def known_function(name: str, known: Any) -> str:
    """The end of a message about a function that is not there."""
    return nearest(name.upper(), known) or "; see docs/guides/sql.md for those that there are"
