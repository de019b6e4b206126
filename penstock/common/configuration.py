"""PyFlink's ``common.configuration``: settings."""

from __future__ import annotations

from penstock.core.config import Configuration
from penstock.core.elsewhere import shown_in

__all__ = ["Configuration"]

shown_in(__name__, __all__)
