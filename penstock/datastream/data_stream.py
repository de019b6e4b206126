"""The stream classes under PyFlink's module name."""

from penstock.datastream._connected import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from penstock.datastream._keyed import KeyedStream
from penstock.datastream._results import CloseableIterator
from penstock.datastream._sink import DataStreamSink
from penstock.datastream._stream import CachedDataStream, DataStream
from penstock.datastream._windowed import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
