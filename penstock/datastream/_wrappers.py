"""``SourceFunction`` and ``SinkFunction``: PyFlink 1.x's wrappers, here around our own contracts.

In PyFlink they hold Java objects.  A program that wraps a source or sink of its own ports unchanged.
"""

from __future__ import annotations

from penstock.connectors.sink import Sink
from penstock.connectors.source import Source
from penstock.core.errors import ConfigError


class SourceFunction:
    """A source, for ``add_source``: the 1.x way. New programs give the source itself to ``from_source``."""

    def __init__(self, source_func: Source) -> None:
        if not isinstance(source_func, Source):
            raise ConfigError(
                f"a SourceFunction wraps a penstock.connectors.source.Source, not {source_func!r}: there is "
                "no Java here. Use a connector of penstock.datastream.connectors, or write a Source"
            )
        self.source = source_func


class SinkFunction:
    """A sink, for ``add_sink``: the 1.x way. New programs give the sink itself to ``sink_to``."""

    def __init__(self, sink_func: Sink) -> None:
        if not isinstance(sink_func, Sink):
            raise ConfigError(
                f"a SinkFunction wraps a penstock.connectors.sink.Sink, not {sink_func!r}: there is no Java "
                "here. Use a connector of penstock.datastream.connectors, or write a Sink"
            )
        self.sink = sink_func
