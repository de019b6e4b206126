"""What all connectors share: the contracts, the delivery guarantees, pre-processing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.connectors.sink import (
    CommitOutcome,
    Committer,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    TypedSink,
    WriterContext,
)
from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]

# What sources and sinks of one's own are made of.
__all__ += ["Batch", "EndOfSplit", "FixedSplits", "Split", "SplitEnumerator", "SplitReader"]
__all__ += ["CommitOutcome", "Committer", "SinkWriter", "TypedSink", "WriterContext"]


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
