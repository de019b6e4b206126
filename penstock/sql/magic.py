"""``%%sql`` in notebooks: ``%load_ext penstock.sql``, then cells of statements.

DataFrames of the notebook are tables under their names.  ``%%sql name`` puts the query, not yet run, into a
variable; without a name some rows are shown.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.dataframe import DataFrame
from penstock.sql.session import Session
from penstock.sql.showing import shown

_ROWS, _SECONDS = 20, 10.0


class SqlMagic:
    """The cell's magic, with one session for the notebook."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None

    def cell(self, line: str, cell: str | None = None) -> Any:
        """Run the statements of a cell; the value of the cell is that of the last."""
        if self._session is None:
            self._session = Session()
        session, value = self._session, None
        for node, text in session.statements(line if cell is None else cell):
            self._know(session, node)
            outcome = session.perform(node, text)
            if outcome.inserts and not session.in_set:
                session.env.execute(f"insert {outcome.said}")
                value = None
            elif outcome.frame is not None:
                value = self._rows(outcome.frame, line.strip() if cell is not None else "")
            else:
                value = None
                for said in shown(outcome):
                    print(said)
        return value

    def _know(self, session: Session, node: exp.Expr) -> None:
        """DataFrames of the notebook that the statement names."""
        for table in node.find_all(exp.Table):
            found = self._shell.user_ns.get(table.name)
            if isinstance(found, DataFrame):
                session.register(table.name, found)

    def _rows(self, frame: DataFrame, name: str) -> Any:
        if name:
            self._shell.user_ns[name] = frame
            return None
        import pandas as pd

        return pd.DataFrame(frame.take(_ROWS, _SECONDS), columns=frame.columns)


def load(shell: Any) -> None:
    """Give a notebook's shell ``%sql`` and ``%%sql``."""
    shell.register_magic_function(SqlMagic(shell).cell, magic_kind="line_cell", magic_name="sql")
