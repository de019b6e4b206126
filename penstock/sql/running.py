"""Statements that are run as they are read: from a file, a prompt or a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from sqlglot import exp

from penstock.sql.errors import Text
from penstock.sql.session import Outcome, Session
from penstock.sql.showing import shown

Say = Callable[[str], object]


def run_text(session: Session, text: str, say: Say) -> None:
    """All statements of a text, one after the other.  An INSERT is a job, whose end is waited for."""
    for node, place in session.statements(text):
        with closing(run(session, node, place)) as lines:  # type: ignore[type-var]
            for line in lines:
                say(line)


def run(session: Session, node: exp.Expr, place: Text) -> Iterator[str]:
    """The lines of a statement's outcome; closing it ends a query that has not ended."""
    outcome = session.perform(node, place)
    if outcome.inserts and not session.in_set:
        yield from _job(session, outcome)
    else:
        yield from shown(outcome)


def _job(session: Session, outcome: Outcome) -> Iterator[str]:
    name = outcome.said
    yield f"Writing {name}."
    session.env.execute(f"insert {name}")
    yield "Done."


def complete(text: str) -> bool:
    """Whether a text that is typed line by line is whole: it ends with a semicolon, outside of quotes."""
    inside: str | None = None
    last = ""
    for line in text.splitlines():
        for at, letter in enumerate(line):
            if inside is None and line.startswith("--", at):
                break
            if inside is None and letter in "'`":
                inside = letter
            elif letter == inside:
                inside = None
            if not letter.isspace():
                last = letter
    return inside is None and last == ";"
