"""PyFlink's ``table.statement_set``: several INSERTs in one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.table.table import Table
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_result import TableResult

__all__ = ["StatementSet", "StreamStatementSet"]


class StatementSet:
    """Gathers INSERTs; what they read in common is read once."""

    def __init__(self, t_env: TableEnvironment) -> None:
        self._t_env = t_env
        self._inserts: list[str | tuple[str, Table]] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """An ``INSERT INTO`` statement."""
        self._inserts.append(stmt)
        return self

    def add_insert(
        self, target_path_or_descriptor: Any, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """The rows of a table into another."""
        if overwrite:
            raise ConfigError("overwrite is not there; write to another directory")
        self._inserts.append((self._t_env._target(target_path_or_descriptor), table))
        return self

    def execute(self) -> TableResult:
        """Run them all, as one job."""
        return self._t_env._started(f"insert-into {', '.join(self._add())}")

    def attach_as_datastream(self) -> None:
        """Add them to the stream environment, for its ``execute()``."""
        self._add()

    def explain(self, *extra_details: Any) -> str:
        """The plan."""
        return "\n".join(
            self._t_env.explain_sql(it) if isinstance(it, str) else it[1].explain() for it in self._inserts
        )

    def _add(self) -> list[str]:
        """Add the sinks; the names of their tables."""
        if not self._inserts:
            raise ConfigError("the statement set is empty: add_insert_sql(...)")
        inserts, self._inserts = self._inserts, []
        return self._t_env._insert_all(inserts)


StreamStatementSet = StatementSet
