"""How much a simulated driver remembers: it must not depend on how long the job has run."""

from __future__ import annotations

from collections import deque
from typing import Any

from penstock.coordinator.coordinator import Coordinator
from penstock.graph.plan import Plan

_CONTAINERS = (list, tuple, set, frozenset, deque)
_OURS = ("penstock.coordinator.", "penstock.core.messages", "penstock.core.handles")


def remembered(coordinator: Coordinator) -> int:
    """The number of things in all lists and tables that the coordinator holds on to."""
    return _count(coordinator, set())


def _count(value: Any, seen: set[int]) -> int:
    if id(value) in seen or isinstance(value, Plan):
        return 0
    if isinstance(value, dict):
        seen.add(id(value))
        return len(value) + sum(_count(item, seen) for item in value.values())
    if isinstance(value, _CONTAINERS):
        seen.add(id(value))
        return len(value) + sum(_count(item, seen) for item in value)
    if type(value).__module__.startswith(_OURS):
        seen.add(id(value))
        return sum(_count(item, seen) for item in _fields(value))
    return 0


def _fields(value: Any) -> list[Any]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in names)]
