"""The hybrid source, where PyFlink has it."""

from penstock.connectors.history import backfilled
from penstock.connectors.hybrid import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder", "backfilled"]
