"""Sources and sinks under the module names that PyFlink programs import from."""

from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
