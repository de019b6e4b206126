"""The number sequence source, where PyFlink has it."""

from penstock.connectors.sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
