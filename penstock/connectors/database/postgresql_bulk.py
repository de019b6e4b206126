"""Many rows at once into PostgreSQL: ``COPY``, then one merge.

Staging tables are ordinary, logged tables.  An unlogged one would load faster and be empty after a crash
of the server, when a published snapshot has already promised its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.connectors.database.dialect import Loader, Target, names, only_keys
from penstock.connectors.database.postgresql_sql import on_conflict, quote, quote_table


class PostgreSqlLoader(Loader):
    """Staging tables and their merge."""

    def create_staging(self, connection: Any, staging: str, target: Target) -> None:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {quote(staging)} AS SELECT 0::bigint AS penstock_seq, "
            f"false AS penstock_deleted, {names(quote, target.columns)} FROM {quote_table(target.table)} "
            "WITH NO DATA"
        )

    def load(
        self,
        connection: Any,
        staging: str,
        target: Target,
        first: int,
        rows: Sequence[Any],
        gone: Sequence[Any],
    ) -> None:
        columns = f"penstock_seq, penstock_deleted, {names(quote, target.columns)}"
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {quote(staging)} ({columns}) FROM STDIN") as copy,
        ):
            number = first
            for some, deleted in ((rows, False), (only_keys(target, gone), True)):
                for row in some:
                    copy.write_row((number, deleted, *row))
                    number += 1

    def tables(self, connection: Any, prefix: str) -> list[str]:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) "
            "AND starts_with(relname::text, %s)",
            (prefix,),
        )
        return [row[0] for row in found.fetchall()]

    def merge(self, staging: str, target: Target, below: str) -> list[str]:
        columns, into = names(quote, target.columns), quote_table(target.table)
        if not target.keys:
            # A load whose answer was lost may have come through after all, beside its repetition.
            return [
                f"INSERT INTO {into} ({columns}) SELECT {columns} FROM (SELECT DISTINCT ON (penstock_seq) * "
                f"FROM {quote(staging)} WHERE {below} ORDER BY penstock_seq) AS penstock_new"
            ]
        keys = names(quote, target.keys)
        order = f"{quote(target.newer)} DESC NULLS LAST, " if target.newer else ""
        newest = (
            f"(SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}penstock_seq DESC) "
            f"AS penstock_rank FROM {quote(staging)} WHERE {below}) AS penstock_new"
        )
        same = " AND ".join(f"{into}.{quote(key)} = penstock_new.{quote(key)}" for key in target.keys)
        if target.newer:
            version = quote(target.newer)
            same += f" AND ({into}.{version} IS NULL OR {into}.{version} <= penstock_new.{version})"
        return [
            f"DELETE FROM {into} USING {newest} WHERE {same} AND penstock_rank = 1 AND penstock_deleted",
            f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {newest} "
            f"WHERE penstock_rank = 1 AND NOT penstock_deleted ORDER BY {keys} {on_conflict(target)}",
        ]

    def check(self, connection: Any) -> None:
        """COPY from the client needs no right of its own."""
