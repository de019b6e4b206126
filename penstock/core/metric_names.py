"""How metrics are called on their way from a task to the driver, and what they are called there.

A name is ``step.group.metric``.  Two things must survive the way that a dot cannot tell: the value of a
group that is a key with a value, which Prometheus has as a label, and that a count is a meter's, of which
people see the rate.  Both are marked by characters that no name has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEY_END = "\x1f"
_VALUE_END = "\x1e"
_METER = "\x1d"
_OURS = re.compile(r"[\x00-\x1f\x7f]")
_PAIR = re.compile(f"([^.{_VALUE_END}{_KEY_END}]*){_KEY_END}([^{_VALUE_END}]*){_VALUE_END}")
_MOST = 200
"""Characters of one part of a name: names are sent every second."""


def clean(part: object) -> str:
    """A part of a name as a user gave it, without what marks names."""
    return _OURS.sub("_", str(part))[:_MOST]


def key_value(key: str, value: str) -> str:
    """What stands for a group of a key and its value, before the names in it."""
    return f"{clean(key)}{_KEY_END}{clean(value)}{_VALUE_END}"


def meter(name: str) -> str:
    """The name under which a meter's count travels."""
    return name + _METER


def is_meter(name: str) -> bool:
    """Whether it is that of a meter's count."""
    return name.endswith(_METER)


def unmarked(name: str) -> str:
    """A meter's own name."""
    return name.removesuffix(_METER)


def plain(name: str) -> str:
    """As Flink's REST has it: keys and values are parts like others."""
    return name.replace(_KEY_END, ".").replace(_VALUE_END, ".")


def labelled(name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """As Prometheus has it: the name with keys only, and the pairs."""
    if _KEY_END not in name:
        return name, ()
    pairs = tuple((found[1], found[2]) for found in _PAIR.finditer(name))
    return _PAIR.sub(lambda found: f"{found[1]}.", name), pairs


def step_keys(names: Iterable[str]) -> list[str]:
    """What the steps of a task are called in names of metrics: each by its name, a namesake with a number.

    Task and driver both work it out from the plan.
    """
    keys: dict[str, None] = {}
    for name in map(clean, names):
        key, number = name, 1
        while key in keys:
            number += 1
            key = f"{name} ({number})"
        keys[key] = None
    return list(keys)
