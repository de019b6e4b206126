"""PyFlink's ``common.constants``."""

from __future__ import annotations

__all__ = ["MAX_LONG_VALUE", "MIN_LONG_VALUE"]

MAX_LONG_VALUE = 2**63 - 1
"""The largest 64-bit number: the last watermark."""
MIN_LONG_VALUE = -(2**63)
"""The smallest: the time of a record that has none."""
