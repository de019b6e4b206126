"""Penstock: stateful stream processing in Python, on Spark."""

from penstock.version import __version__

__all__ = ["__version__"]
