"""MariaDB, MySQL and PostgreSQL as sinks and sources: see ``docs/guides/databases.md``."""

from penstock.connectors.database.sink import DatabaseSink, DatabaseSinkBuilder, Delivery
from penstock.connectors.database.source import DatabaseSource, DatabaseSourceBuilder

__all__ = ["DatabaseSink", "DatabaseSinkBuilder", "DatabaseSource", "DatabaseSourceBuilder", "Delivery"]
