"""What all connectors share: the contracts, the delivery guarantees, pre-processing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.connectors.sink import DeliveryGuarantee, Sink
from penstock.connectors.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]


class StreamTransformer(ABC):
    """A change to a stream on its way to a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """The transformed stream. Called once, while the program is being built."""


class SupportsPreprocessing(ABC):
    """A sink that changes the stream before it writes."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """The change, or ``None`` if there is none."""
