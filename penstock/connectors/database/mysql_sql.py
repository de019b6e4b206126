"""Pieces of SQL that writing and merging into MariaDB and MySQL share."""

from __future__ import annotations

from penstock.connectors.database.dialect import Target


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
