"""PyFlink's ``version``. What is told is the version of Penstock."""

from penstock import __version__

__all__ = ["__version__"]
