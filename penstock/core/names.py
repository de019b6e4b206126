"""Classes by module and qualified name."""

from __future__ import annotations

import sys
from typing import Any


def found_under(module: str, qualname: str) -> Any:
    """What a module that is loaded has under a name; ``None`` if there is nothing."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def is_named(kind: type) -> bool:
    """Whether a class is found by its module and qualified name: in every run it is the same one."""
    return found_under(kind.__module__, kind.__qualname__) is kind
