"""PyFlink's ``common.types``: rows."""

from __future__ import annotations

from penstock.core.row import Row, RowKind

__all__ = ["Row", "RowKind"]
