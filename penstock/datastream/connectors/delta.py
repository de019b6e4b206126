"""Delta Lake tables as sources and sinks. There is no such module in PyFlink; the names are our own."""

from penstock.connectors.lake.delta.sink import DeltaSink
from penstock.connectors.lake.delta.source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]
