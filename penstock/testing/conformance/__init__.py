"""Suites that a connector must pass, to subclass in a project's own tests.

Each suite is a class of ordinary test functions; a subclass says how to make the connector and pytest
runs the rest::

    class TestMySource(SourceConformance):
        def make_source(self, directory):
            return MySource(...)

A suite passes only if the exactly-once guarantee can hold with the connector in it.
"""

from penstock.testing.conformance.sink_suite import SinkConformance
from penstock.testing.conformance.source_suite import SourceConformance

__all__ = ["SinkConformance", "SourceConformance"]
