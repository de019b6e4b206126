"""A sink made of two functions."""

from __future__ import annotations

from penstock.connectors.builtin.generic import GenericSink

__all__ = ["GenericSink"]
