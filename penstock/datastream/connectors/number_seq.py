"""The number sequence source, where PyFlink has it."""

from penstock.connectors.builtin.datagen import NumberSequenceSource
from penstock.datastream.connectors.base import Source

__all__ = ["NumberSequenceSource"]

# PyFlink has these here, too, from its other modules.
__all__ += ["Source"]
