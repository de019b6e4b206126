"""Many rows at once into MariaDB and MySQL: ``LOAD DATA LOCAL INFILE``, then one merge.

The file is tab-separated text in the server's own escapes, written column by column.  Binary columns
travel in hexadecimal, since the file as a whole is text.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from typing import Any

from penstock.connectors.database.dialect import Loader, RowRefused, Target, names, only_keys
from penstock.core.errors import ConnectorError

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def quote(name: str) -> str:
    """One identifier, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def quote_table(name: str) -> str:
    """A table; ``schema.table`` has two parts."""
    return ".".join(map(quote, name.split(".")))


def on_duplicate(target: Target) -> str:
    """What happens to a row that is there.

    Assignments are carried out from left to right and see one another, so the version comes last.
    """
    others = [column for column in target.columns if column not in target.keys and column != target.newer]
    if target.newer is None:
        settings = [f"{quote(c)} = VALUES({quote(c)})" for c in others or target.keys[:1]]
    else:
        table, version = quote_table(target.table), quote(target.newer)
        is_newer = f"({table}.{version} IS NULL OR VALUES({version}) >= {table}.{version})"
        settings = [
            f"{quote(c)} = IF({is_newer}, VALUES({quote(c)}), {table}.{quote(c)})"
            for c in (*others, target.newer)
        ]
    return f"ON DUPLICATE KEY UPDATE {', '.join(settings)}"


class MySqlLoader(Loader):
    """Staging tables and their merge."""

    def create_staging(self, connection: Any, staging: str, target: Target) -> None:
        columns = ", ".join(f"penstock_like.{quote(column)}" for column in target.columns)
        # An outer join that finds nothing has the target's types, and every column may be NULL.
        with connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {quote(staging)} (penstock_seq BIGINT NOT NULL PRIMARY KEY, "
                "penstock_deleted TINYINT NOT NULL) ENGINE=InnoDB AS SELECT 0 AS penstock_seq, "
                f"0 AS penstock_deleted, {columns} FROM (SELECT 1 AS one) AS penstock_one "
                f"LEFT JOIN {quote_table(target.table)} AS penstock_like ON FALSE LIMIT 0"
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
        everything = [*rows, *only_keys(target, gone)]
        deleted = ["0"] * len(rows) + ["1"] * len(gone)
        columns = list(zip(*everything, strict=True))
        binary = {
            i for i, values in enumerate(columns) if not {bytes, bytearray}.isdisjoint(map(type, values))
        }
        fields = [_hexed(values) if i in binary else _field(values) for i, values in enumerate(columns)]
        numbers = map(str, range(first, first + len(everything)))
        # A BIT column takes the text '1' for its character code.
        made = {i: f"UNHEX(@c{i})" for i in binary}
        bits = _bit_columns(connection, staging)
        made |= {
            i: f"CAST(@c{i} AS UNSIGNED)"
            for i, column in enumerate(target.columns)
            if column in bits and i not in binary
        }
        places = [f"@c{i}" if i in made else quote(c) for i, c in enumerate(target.columns)]
        settings = ", ".join(f"{quote(target.columns[i])} = {how}" for i, how in made.items())
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".penstock") as file:
            file.writelines(
                line + "\n" for line in map("\t".join, zip(numbers, deleted, *fields, strict=True))
            )
            file.flush()
            with connection.cursor() as cursor:
                cursor.execute(
                    f"LOAD DATA LOCAL INFILE %s INTO TABLE {quote(staging)} CHARACTER SET utf8mb4 "
                    "FIELDS TERMINATED BY 0x09 ESCAPED BY 0x5C LINES TERMINATED BY 0x0A "
                    f"(penstock_seq, penstock_deleted, {', '.join(places)})"
                    + (f" SET {settings}" if settings else ""),
                    (file.name,),
                )
                _refuse_shortened(cursor, len(everything))

    def tables(self, connection: Any, prefix: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
                "AND LEFT(table_name, %s) = %s",
                (len(prefix), prefix),
            )
            return [row[0] for row in cursor.fetchall()]

    def merge(self, staging: str, target: Target, below: str) -> list[str]:
        columns, into = names(quote, target.columns), quote_table(target.table)
        if not target.keys:
            return [
                f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {quote(staging)} WHERE {below} "
                "ORDER BY penstock_seq"
            ]
        keys = names(quote, target.keys)
        order = f"{quote(target.newer)} DESC, penstock_seq DESC" if target.newer else "penstock_seq DESC"
        newest = (
            f"(SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS penstock_rank "
            f"FROM {quote(staging)} WHERE {below}) AS penstock_new"
        )
        same = " AND ".join(f"{into}.{quote(key)} = penstock_new.{quote(key)}" for key in target.keys)
        older = ""
        if target.newer:
            version = quote(target.newer)
            older = f" AND ({into}.{version} IS NULL OR {into}.{version} <= penstock_new.{version})"
        return [
            f"DELETE {into} FROM {into} JOIN {newest} ON {same} "
            f"WHERE penstock_rank = 1 AND penstock_deleted = 1{older}",
            f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {newest} "
            f"WHERE penstock_rank = 1 AND penstock_deleted = 0 ORDER BY {keys} {on_duplicate(target)}",
        ]

    def check(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@local_infile")
            allowed = cursor.fetchone()[0]
        if not allowed:
            raise ConnectorError(
                "this server refuses LOAD DATA LOCAL INFILE, which Delivery.BULK_LOAD uses: SET GLOBAL "
                "local_infile = 1 (and in its configuration file), or use Delivery.UPSERT or TWO_PHASE."
            )


def _bit_columns(connection: Any, staging: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "
            "AND table_name = %s AND data_type = 'bit'",
            (staging,),
        )
        return {row[0] for row in cursor.fetchall()}


def _field(values: Sequence[Any]) -> Sequence[str]:
    """One column as the file has it."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return list(map(repr, values))
    if kinds == {str}:
        return [value.translate(_ESCAPES) for value in values]
    return [_text(value) for value in values]


def _hexed(values: Sequence[Any]) -> Sequence[str]:
    """A column with bytes in it; text among them counts as UTF-8."""
    texts = [str(v).encode() if not isinstance(v, bytes | bytearray | None) else v for v in values]
    return ["\\N" if text is None else text.hex() for text in texts]


def _text(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dt.timedelta):
        sign, span = ("-", -value) if value < dt.timedelta() else ("", value)
        hours, seconds = span.days * 24 + span.seconds // 3600, span.seconds % 3600
        return f"{sign}{hours}:{seconds // 60:02}:{seconds % 60:02}.{span.microseconds:06}"
    return str(value).translate(_ESCAPES)


def _refuse_shortened(cursor: Any, expected: int) -> None:
    """With LOCAL the server makes warnings of errors and changes values to fit; that is not for us."""
    loaded = cursor.rowcount
    cursor.execute("SHOW WARNINGS")
    # Notes (a number was rounded) are what an INSERT in strict mode lets pass, too.  The session makes none:
    # the server keeps 64 warnings and would let notes push the others out.
    warning = next(iter(cursor.fetchall()), None)
    if warning is not None or loaded != expected:
        raise RowRefused(f"{loaded} of {expected} rows loaded" if warning is None else str(warning[2]))
