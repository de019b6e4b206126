"""PyFlink's ``common.io``: the base of input formats."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.connectors.source import Source

__all__ = ["InputFormat"]


class InputFormat(ABC):
    """A bounded input that describes itself: what ``env.create_input`` takes."""

    @abstractmethod
    def create_source(self) -> Source:
        """The source that reads this input. Called once, on the driver, when the graph is built."""
