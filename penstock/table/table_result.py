"""PyFlink's ``table.table_result``: what a statement came to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from typing import Any

from penstock.common import JobClient, Row
from penstock.core.changes import ChangeMode
from penstock.dataframe import DataFrame
from penstock.sql.printing import framed
from penstock.sql.showing import rows_of

__all__ = ["ExplainDetail", "ResultKind", "TableResult"]


class ExplainDetail(Enum):
    """What else an explanation should tell; taken, and told or not all the same."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3


class ResultKind(Enum):
    """Whether there are rows, or a word only."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


def _changes(frame: DataFrame) -> Iterator[Row]:
    """Rows with what becomes of each."""
    with closing(frame.iter_rows(include_row_kind=True)) as found:  # type: ignore[type-var]
        for kind, record in found:
            row = Row(**record)
            row.set_row_kind(kind)
            yield row


class TableResult:
    """The rows of a query, which runs when they are asked for, or a job that writes somewhere."""

    def __init__(
        self,
        frame: DataFrame | None = None,
        rows: list[dict[str, Any]] | None = None,
        client: JobClient | None = None,
    ) -> None:
        self._frame = frame
        self._rows = rows
        self._client = client

    def get_job_client(self) -> JobClient | None:
        """The job of an INSERT."""
        return self._client

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait for the end of an INSERT's job."""
        if self._client is not None:
            seconds = None if timeout_ms is None else timeout_ms / 1000
            self._client.get_job_execution_result().result(seconds)

    def get_result_kind(self) -> ResultKind:
        """Whether there are rows."""
        some = self._frame is not None or self._rows is not None
        return ResultKind.SUCCESS_WITH_CONTENT if some else ResultKind.SUCCESS

    def collect(self) -> Any:
        """The rows, as they come; close it to end a query that does not end."""
        if self._frame is None:
            return iter([Row(**row) for row in self._rows or ()])
        if self._frame.changes is ChangeMode.APPEND:
            return self._frame.execute_and_collect()
        return _changes(self._frame)

    def print(self) -> None:
        """The rows, as a table; a query that does not end prints until it is interrupted."""
        if self._frame is None:
            rows = self._rows if self._rows is not None else [{"result": "OK"}]
            for line in framed(list(rows[0]) if rows else ["result"], (tuple(row.values()) for row in rows)):
                print(line)
            return
        for line in rows_of(self._frame):
            print(line, flush=True)
