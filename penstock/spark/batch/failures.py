"""Errors of vertices on their way through Spark: the error arrives that was raised.

Spark turns what a Python worker raises into text, and quotes data in text of its own: the cell of a CSV file
that is no number, for one.  So an error travels as plain words, its class by name and its texts, of which
only known classes are made again: **nothing is ever unpickled from text**.  The words stand behind a mark
that each run draws by lot, so that data cannot choose what a job's error says either.
"""

from __future__ import annotations

import base64
import json
import re
import secrets

from penstock.core import errors
from penstock.core.errors import PenstockError, UserCodeError

_WORDS = "PENSTOCK-FAILED"
_KNOWN: dict[str, type[PenstockError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PenstockError) and kind is not UserCodeError
}


def new_mark() -> str:
    """A mark for the errors of one run, which nobody can guess."""
    return secrets.token_hex(16)


def packed(error: Exception, mark: str) -> RuntimeError:
    """What to raise in a worker in place of ``error``."""
    said = base64.b64encode(json.dumps(_said(error)).encode()).decode()
    return RuntimeError(f"{_WORDS} {mark} {said}")


def unpacked(error: Exception, mark: str) -> Exception | None:
    """The error that a worker of the run with this mark packed into what Spark raised, if one did."""
    found = re.search(rf"{_WORDS} {mark} ([A-Za-z0-9+/=]+)", str(error))
    if found is None:
        return None
    try:
        return _made(json.loads(base64.b64decode(found[1], validate=True)))
    except (ValueError, RecursionError):
        return None


def _said(error: Exception) -> tuple[str, tuple[str | None, ...]]:
    """The name of the nearest class that :func:`_made` knows, and the texts it is made of."""
    if isinstance(error, UserCodeError):
        return UserCodeError.__name__, (error.step, error.subtask, error.record, error.trace)
    for kind in type(error).__mro__:
        if _KNOWN.get(kind.__name__) is kind:
            return kind.__name__, (_text(error),)
    return PenstockError.__name__, (f"{type(error).__name__}: {_text(error)}",)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def _made(said: object) -> Exception | None:
    match said:
        case ["UserCodeError", [str(step), str(subtask), str() | None as record, str(trace)]]:
            return UserCodeError(step, subtask, record, trace)
        case [str(name), [str(text)]] if name in _KNOWN:
            return _KNOWN[name](text)
    return None
