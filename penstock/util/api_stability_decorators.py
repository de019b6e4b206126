"""PyFlink's ``util.api_stability_decorators``: marks on classes and functions. They change nothing."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

__all__ = ["Deprecated", "Experimental", "Internal", "Public", "PublicEvolving"]

T = TypeVar("T", bound=Any)


class BaseAPIStabilityDecorator:
    """A mark. What it is put on stays as it is."""

    def __call__(self, func_or_cls: T) -> T:
        return func_or_cls


class Public(BaseAPIStabilityDecorator):
    """For everybody."""


class PublicEvolving(BaseAPIStabilityDecorator):
    """For everybody; may change."""


class Experimental(BaseAPIStabilityDecorator):
    """May go again."""


class Internal(BaseAPIStabilityDecorator):
    """Not for users."""


class Deprecated(BaseAPIStabilityDecorator):
    """Warns when it is put on something."""

    def __init__(self, since: str, detail: str | None = None) -> None:
        self.since = since
        self.detail = detail

    def __call__(self, func_or_cls: T) -> T:
        text = f"{func_or_cls.__qualname__} is deprecated since {self.since}."
        warnings.warn(f"{text} {self.detail or ''}".rstrip(), DeprecationWarning, stacklevel=2)
        return func_or_cls
