"""PyFlink's ``util.exceptions``: programs catch what a job failed with under this name."""

from __future__ import annotations

from penstock.core.errors import PenstockError

__all__ = ["JavaException"]

JavaException = PenstockError
"""What the engine raises; in PyFlink it comes from Java."""
