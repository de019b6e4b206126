"""PyFlink's ``version``. What is told is the version of Penstock."""

__all__ = ["__version__"]

__version__ = "0.1.0"
