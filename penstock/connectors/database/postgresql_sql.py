"""Pieces of SQL that writing and merging into PostgreSQL share."""

from __future__ import annotations

from penstock.connectors.database.dialect import Target, names


def quote(name: str) -> str:
    """One identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def quote_table(name: str) -> str:
    """A table; ``schema.table`` has two parts."""
    return ".".join(map(quote, name.split(".")))


def on_conflict(target: Target) -> str:
    """What happens to a row that is there; nothing to say for a table that is appended to."""
    if not target.keys:
        return ""
    others = [column for column in target.columns if column not in target.keys]
    conflict = f"ON CONFLICT ({names(quote, target.keys)})"
    if not others:
        return f"{conflict} DO NOTHING"
    settings = ", ".join(f"{quote(c)} = EXCLUDED.{quote(c)}" for c in others)
    update = f"{conflict} DO UPDATE SET {settings}"
    if target.newer is None:
        return update
    stored = f"{quote_table(target.table)}.{quote(target.newer)}"
    return f"{update} WHERE {stored} IS NULL OR EXCLUDED.{quote(target.newer)} >= {stored}"
