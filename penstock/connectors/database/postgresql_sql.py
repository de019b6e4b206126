"""Pieces of SQL that writing and merging into PostgreSQL share."""

from __future__ import annotations

from penstock.connectors.database.dialect import Target, names


def quote(name: str) -> str:
    """An identifier; ``schema.table`` has two parts."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


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
    stored = f"{quote(target.table)}.{quote(target.newer)}"
    return f"{update} WHERE {stored} IS NULL OR EXCLUDED.{quote(target.newer)} >= {stored}"
