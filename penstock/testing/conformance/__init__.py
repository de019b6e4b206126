"""Suites that a connector or state backend must pass, to subclass in a project's own tests.

Each suite is a class of ordinary test functions; a subclass says how to make the thing and pytest
runs the rest::

    class TestMySource(SourceConformance):
        def make_source(self, directory):
            return MySource(...)

A suite passes only if the exactly-once guarantee can hold with the thing in it.
"""

from penstock.testing.conformance.sink_suite import SinkConformance
from penstock.testing.conformance.source_suite import SourceConformance
from penstock.testing.conformance.state_suite import StateConformance

__all__ = ["SinkConformance", "SourceConformance", "StateConformance"]
