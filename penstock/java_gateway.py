"""PyFlink's ``java_gateway``: programs import it without calling it, too, so it can be imported."""

from __future__ import annotations

from typing import NoReturn

from penstock.core.no_java import refuse_java

__all__ = ["get_gateway"]


def get_gateway() -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("get_gateway()")
