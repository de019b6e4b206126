"""How much a simulated driver remembers: it must not depend on how long the job has run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import Any

from penstock.coordinator.coordinator import Coordinator
from penstock.graph.plan import Plan

_CONTAINERS = (list, tuple, set, frozenset, deque)
_LEAVES = frozenset({int, float, str, bytes, bool, type(None)})
_OURS = ("penstock.coordinator.", "penstock.core.messages", "penstock.core.handles")


def remembered(coordinator: Coordinator) -> int:
    """The number of things in all lists and tables that the coordinator holds on to."""
    return _count(coordinator, set())


def _count(value: Any, seen: set[int]) -> int:
    if id(value) in seen or isinstance(value, Plan):
        return 0
    if isinstance(value, dict):
        seen.add(id(value))
        return len(value) + _count_all(value.values(), seen)
    if isinstance(value, _CONTAINERS):
        seen.add(id(value))
        return len(value) + _count_all(value, seen)
    if type(value).__module__.startswith(_OURS):
        seen.add(id(value))
        return _count_all(_fields(value), seen)
    return 0


def _count_all(values: Iterable[Any], seen: set[int]) -> int:
    return sum(_count(value, seen) for value in values if type(value) not in _LEAVES)


def _fields(value: Any) -> list[Any]:
    kind: Any = type(value)
    slots = (getattr(value, name, None) for name in _slots(kind))
    return [*getattr(value, "__dict__", {}).values(), *slots]


@cache
def _slots(kind: type) -> list[str]:
    return [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
