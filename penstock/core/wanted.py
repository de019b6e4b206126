"""Settings that are members of a class: another value is refused where it is given."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from penstock.core.errors import ConfigError

_T = TypeVar("_T")


def wanted(kind: type[_T], value: Any) -> _T:
    """``value`` if it is of ``kind``. Raises :class:`ConfigError` that names what was probably meant."""
    if isinstance(value, kind):
        return value
    name = kind.__name__.lstrip("_")
    meant = ""
    if issubclass(kind, Enum):
        members = {member.casefold(): member for member in kind.__members__}
        found = members.get(str(value).casefold().replace("-", "_"))
        meant = f": write {name}.{found}" if found else f": one of {', '.join(kind.__members__)}"
    elif isinstance(value, type) and issubclass(value, kind):
        raise ConfigError(f"{value.__name__} is a class where an instance is needed: a {name} is wanted")
    raise ConfigError(f"a {name} is wanted, not {value!r:.80}{meant}")
