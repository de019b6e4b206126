"""Where rows go and how: a table by key, a table that is appended to, or a statement; and the row at fault.

The row at fault is found by halving, so that the error can name it.  A database says that *some* row of a
thousand does not fit.  Writing ever smaller beginnings of the batch, each in a transaction that is rolled
back, finds the first beginning that is refused: its last row is the one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.database.dialect import Dialect, Fault, Target
from penstock.connectors.database.rows import Changed
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError

_log = log_of(__name__)
_SHOWN = 60


@dataclass(frozen=True)
class WriteTarget:
    """What writers write to, and what errors call it."""

    dialect: Dialect
    where: str
    columns: Sequence[str]
    apply: Callable[[Any, Changed], None]
    """Carry changes out on a connection; begins and ends no transaction."""


def to_table(dialect: Dialect, target: Target) -> WriteTarget:
    """A table."""

    def apply(connection: Any, changed: Changed) -> None:
        dialect.apply(connection, target, changed.rows, changed.gone)

    return WriteTarget(dialect, f"table {target.table!r} of {dialect.address}", target.columns, apply)


def to_statement(dialect: Dialect, statement: str, columns: Sequence[str]) -> WriteTarget:
    """A statement with a parameter per column, run for every row in the order they came."""

    def apply(connection: Any, changed: Changed) -> None:
        with connection.cursor() as cursor:
            dialect.run_each(cursor, statement, changed.rows)

    return WriteTarget(dialect, f"the statement {statement!r} at {dialect.address}", columns, apply)


def refused(destination: WriteTarget, changed: Changed, error: BaseException) -> ConnectorError:
    """The error to raise for a batch that failed with a data error."""
    found = first_refused(len(changed), lambda count: _rolled_back(destination, changed.first(count)))
    if found is None:
        said = destination.dialect.sentence(error)
        return ConnectorError(f"{destination.where} refuses a batch of {len(changed)} rows: {said}")
    count, reason = found
    return _message(destination, reason, changed.at(count - 1))


def first_refused(
    size: int, attempt: Callable[[int], BaseException | None]
) -> tuple[int, BaseException] | None:
    """The smallest count for which ``attempt`` gives an error, and the error; ``None`` if all pass."""
    reason = attempt(size)
    if reason is None:
        return None
    passes, fails = 0, size
    while fails - passes > 1:
        middle = (passes + fails) // 2
        error = attempt(middle)
        if error is None:
            passes = middle
        else:
            fails, reason = middle, error
    return fails, reason


def _rolled_back(destination: WriteTarget, changed: Changed) -> BaseException | None:
    """The data error that these changes meet in a transaction of their own, which never commits."""
    dialect = destination.dialect
    try:
        connection = dialect.connect()
    except Exception as e:
        _log.warning("the row at fault cannot be looked for: %s", dialect.sentence(e))
        return None
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
        destination.apply(connection, changed)
    except Exception as e:
        return e if dialect.fault(e) is Fault.DATA else None
    finally:
        with contextlib.suppress(Exception), connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
        with contextlib.suppress(Exception):
            connection.close()
    return None


def _message(destination: WriteTarget, error: BaseException, row: tuple[Any, ...]) -> ConnectorError:
    shown = show(destination.columns, row)
    return ConnectorError(
        f"{destination.where} refuses a row: {destination.dialect.sentence(error)}. The row: {shown}. Filter "
        "or mend such records before the sink, or change the table; then start the job again, it goes on "
        "from its last checkpoint."
    )


def show(columns: Sequence[str], row: Sequence[Any]) -> str:
    """A row for a message."""
    return ", ".join(f"{name}={_shorten(value)}" for name, value in zip(columns, row, strict=False))


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
