"""Apache Iceberg tables as sinks. There is no such module in PyFlink; the names are our own."""

from penstock.connectors.lake.iceberg import IcebergSink

__all__ = ["IcebergSink"]
