"""The nearest thing that is there, for messages about what is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'amount'?``, or what there is, or nothing."""
    there = sorted(known)
    found = difflib.get_close_matches(name, there, 1, 0.6)
    if found:
        return f"; did you mean {found[0]!r}?"
    return f"; there are {', '.join(map(repr, there))}" if 0 < len(there) <= 12 else ""
