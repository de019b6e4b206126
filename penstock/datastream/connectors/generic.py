"""A sink made of two functions."""

from __future__ import annotations

from penstock.connectors.generic import GenericSink

__all__ = ["GenericSink"]
