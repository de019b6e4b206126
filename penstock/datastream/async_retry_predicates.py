"""Ready-made conditions for repeating a request."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any]) -> bool:
    """Whether there is no result."""
    return len(result) == 0


def has_exception_predicate(error: Exception) -> bool:
    """Whether there was an error, whichever."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Whether there was an error of this type; fix the type with ``functools.partial`` or a lambda."""
    return isinstance(error, expected_error_type)
