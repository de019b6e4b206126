"""How a program that runs several queries tells the runner of each: a line when it begins, one at its end."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable
from typing import Any

BEGINS, RESULT, FAILED = "BEGINS ", "RESULT ", "FAILED "
WARM = 1_000_000
"""Events of a first run of q0, of which nothing is said."""


def sized(query: str, events: int) -> str:
    """A query and over how many events, as an argument of such a program."""
    return f"{query}={events}"


def report(queries: Iterable[str], run: Callable[[str, int], dict[str, Any]]) -> None:
    """Run one query after the other, each over its events; one that fails is reported, and the rest go on."""
    for query, _, events in (it.partition("=") for it in queries):
        _say(BEGINS, {"query": query})
        try:
            found = run(query, int(events))
        except Exception as error:
            traceback.print_exc()
            _say(FAILED, {"query": query, "error": f"{type(error).__name__}: {error}"})
        else:
            _say(RESULT, {"query": query, **found})


def _say(what: str, about: dict[str, Any]) -> None:
    print(what + json.dumps(about), flush=True)
