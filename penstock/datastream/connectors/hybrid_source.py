"""The hybrid source, where PyFlink has it."""

from penstock.connectors.combinators.backfill import backfilled
from penstock.connectors.combinators.hybrid import HybridSource, HybridSourceBuilder
from penstock.datastream.connectors.base import Source

__all__ = ["HybridSource", "HybridSourceBuilder", "backfilled"]

# PyFlink has these here, too, from its other modules.
__all__ += ["Source"]
