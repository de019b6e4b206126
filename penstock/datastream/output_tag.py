"""``OutputTag``, where PyFlink programs look for it."""

from __future__ import annotations

from penstock.operators.output_tag import OutputTag

__all__ = ["OutputTag"]
