"""PyFlink's ``common.configuration``: settings."""

from __future__ import annotations

from penstock.core.config import Configuration

__all__ = ["Configuration"]
