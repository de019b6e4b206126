"""Tables of databases as sources; users import these names from the module of the sinks."""

from __future__ import annotations

from penstock.connectors.database.source import DatabaseSource, DatabaseSourceBuilder

__all__ = ["DatabaseSource", "DatabaseSourceBuilder"]
