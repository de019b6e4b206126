"""PyFlink's ``common.types``: rows."""

from __future__ import annotations

from penstock.core.elsewhere import shown_in
from penstock.core.row import Row, RowKind

__all__ = ["Row", "RowKind"]

shown_in(__name__, __all__)
