"""Ports as settings name them: ``0`` (any), ``50000``, ``50000-50100``, or several of these with commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.core.errors import ConfigError

_MOST = 65_535


def ports_in(text: str) -> Iterator[int]:
    """The ports of a text that :func:`port_text` has let pass, in their order."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def port_text(text: str) -> str:
    """The text without blanks; refused with the way out if it makes no sense."""
    plain = text.replace(" ", "")
    if re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", plain):
        found = list(ports_in(plain))
        if found and max(found) <= _MOST and (0 not in found or found == [0]):
            return plain
    raise ConfigError(
        f"{text!r} names no ports; write one (50000), a range (50000-50100), several of these with commas, "
        f"all up to {_MOST}, or 0 for any"
    )
